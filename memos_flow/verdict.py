"""Verdict: what the verifier's checks say about a trial, and how severely (section 4.1)."""

import dataframely as dy
import polars as pl

from memos_flow.schemas import Checks, Executions, Trials
from memos_flow.schemas.vocabulary import CHECK_KINDS

#: Statuses that are failures of the agent without any check, as check kinds.
_STATUS_KINDS = {"agent_error": "agent_error", "agent_timeout": "timeout"}


def failures(executions: dy.LazyFrame[Executions], checks: dy.LazyFrame[Checks]) -> pl.LazyFrame:
    """Failing checks per execution, kind and field (without one: per statement, else check).

    Columns: `execution_id`, `check_kind`, `field`, `check_key`, `check_name`, `statement`,
    `expected`, `actual` (of the first such check), `failing` (checks), `checks` (all checks of the
    execution), `relative_error` (the largest, null where none is known). A trial that its agent
    broke off counts as one failing check of that kind.
    """
    broken_off = executions.filter(pl.col("status").is_in(list(_STATUS_KINDS))).select(
        "execution_id",
        check_kind=pl.col("status")
        .cast(pl.String)
        .replace(_STATUS_KINDS)
        .cast(pl.Enum(CHECK_KINDS)),
        field=pl.lit(None, dtype=pl.String),
        check_key=pl.col("status").cast(pl.String),
        name=pl.col("status").cast(pl.String),
        expected=pl.lit(None, dtype=pl.String),
        actual=pl.lit(None, dtype=pl.String),
        relative_error=pl.lit(None, dtype=pl.Float64),
        check_index=pl.lit(-1, dtype=pl.Int32),
        statement=pl.lit(None, dtype=pl.String),
    )
    failing = checks.filter(~pl.col("passed")).select(
        "execution_id",
        pl.col("kind").alias("check_kind"),
        "field",
        "check_key",
        "name",
        "expected",
        "actual",
        "relative_error",
        "check_index",
        "statement",
    )
    totals = checks.group_by("execution_id").agg(rows=pl.len().cast(pl.Int32))
    return (
        pl.concat([broken_off, failing])
        .sort("execution_id", "check_index")
        # Without a field, what the author wrote tells one failure from another.
        .with_columns(
            about=pl.when(pl.col("field").is_null()).then(pl.coalesce("statement", "check_key"))
        )
        .group_by("execution_id", "check_kind", "field", "about", maintain_order=True)
        .agg(
            pl.col("check_key").first(),
            pl.col("statement").first(),
            pl.col("name").first().alias("check_name"),
            pl.col("expected").first(),
            pl.col("actual").first(),
            pl.col("relative_error").max(),
            failing=pl.len().cast(pl.Int32),
        )
        .join(
            executions.select("execution_id", "checks_total"),
            on="execution_id",
            how="left",
            maintain_order="left",
        )
        .join(totals, on="execution_id", how="left", maintain_order="left")
        .with_columns(
            # One failing test may reveal several differences: never fewer checks than rows.
            checks=pl.max_horizontal("checks_total", "rows", "failing", pl.lit(1, pl.Int32))
        )
        .drop("about", "checks_total", "rows")
    )


def weighted(kind: pl.Expr, relative_error: pl.Expr) -> pl.Expr:
    """The variant's weight of a failing check kind, in [0, 1]; needs the `verdict_*` columns."""
    weight = pl.coalesce(
        pl.when(kind == name).then(pl.col("verdict_weights").struct.field(name))
        for name in CHECK_KINDS
    )
    floor = pl.col("verdict_numeric_floor")
    deviation = floor + (1 - floor) * relative_error.fill_null(1).clip(0, 1)
    return weight * pl.when(kind == "numeric_deviation").then(deviation).otherwise(1.0)


def severity(kind: pl.Expr, relative_error: pl.Expr, failing: pl.Expr, checks: pl.Expr) -> pl.Expr:
    """weight * (share_floor + (1 - share_floor) * failing / checks), in [0, 1]."""
    floor = pl.col("verdict_share_floor")
    return weighted(kind, relative_error) * (floor + (1 - floor) * failing / checks).clip(0, 1)


def verdicts(
    trials: dy.LazyFrame[Trials],
    executions: dy.LazyFrame[Executions],
    failures: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    """One row per scored trial: `lane_id`, `step`, `execution_id`, `outcome`, `verifier_severity`.

    The severity is the worst over the failing kinds; without failing checks it is
    `1 - passed/total`, else `clamp01(1 - reward)`; a pass has severity 0.
    """
    per_kind = failures.group_by("execution_id", "check_kind").agg(
        pl.col("failing").sum(), pl.col("checks").first(), pl.col("relative_error").max()
    )
    counted = 1 - pl.col("checks_passed") / pl.col("checks_total")
    without_checks = pl.coalesce(
        pl.when(pl.col("checks_total") > 0).then(counted), 1 - pl.col("reward"), pl.lit(1.0)
    ).clip(0, 1)
    return (
        trials.filter(pl.col("passed").is_not_null())
        .select("lane_id", "step", "execution_id", "passed", "reward")
        .join(
            executions.select("execution_id", "checks_passed", "checks_total"),
            on="execution_id",
            how="left",
        )
        .join(per_kind, on="execution_id", how="left")
        .join(
            settings.select(
                "lane_id", "verdict_weights", "verdict_share_floor", "verdict_numeric_floor"
            ),
            on="lane_id",
            how="left",
        )
        .group_by("lane_id", "step", "execution_id")
        .agg(
            pl.col("passed").first(),
            with_checks=severity(
                pl.col("check_kind"),
                pl.col("relative_error"),
                pl.col("failing"),
                pl.col("checks"),
            ).max(),
            without_checks=without_checks.first(),
        )
        .select(
            "lane_id",
            "step",
            "execution_id",
            outcome=pl.when("passed").then(pl.lit("pass")).otherwise(pl.lit("fail")),
            verifier_severity=pl.when("passed")
            .then(0.0)
            .otherwise(pl.coalesce("with_checks", "without_checks")),
        )
        .sort("lane_id", "step")
    )
