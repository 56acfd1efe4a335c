"""Feedback: the verdict and what people said, as structured rows bound to an episode."""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import Feedback
from memos_flow.schemas.vocabulary import (
    CHANNELS,
    FEEDBACK_SOURCES,
    OUTCOME_SOURCES,
    OUTCOMES,
    POLARITIES,
    QUARANTINE_REASONS,
    STEP_SPAN,
)

#: What tells one evaluation from another; the same one again is a duplicate.
_SAME_EVALUATION = ["lane_id", "episode_step", "source", "channel", "text_id", "execution_id"]


def heard(
    verdicts: pl.LazyFrame,
    remarks: pl.LazyFrame,
    known: dy.LazyFrame[Feedback],
    settings: pl.LazyFrame,
    library: Library,
) -> dy.LazyFrame[Feedback]:
    """The feedback of this step, the verifier's first, then the remarks in their order.

    `remarks`: `lane_id`, `step` (arrival), `episode_step`, `order`, `source`, `channel`,
    `polarity`, `magnitude` (null: the variant's default), `text_id`; what came with a verifier's
    payload carries its `outcome`, `verifier_severity` and `execution_id` (of its checks) too, else
    null.
    """
    rows = pl.concat([_of_verifier(verdicts), _of_people(remarks, settings, library)])
    numbered = rows.sort("lane_id", "step", "order").with_columns(
        feedback_id=pl.col("step").cast(pl.Int64) * STEP_SPAN
        + pl.int_range(pl.len()).over("lane_id", "step")
    )
    seen = known.select(_SAME_EVALUATION).unique().with_columns(seen=True)
    return Feedback.cast(
        numbered.join(
            seen, on=_SAME_EVALUATION, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(
            duplicate=pl.col("seen").fill_null(False)
            | ~pl.struct(_SAME_EVALUATION).is_first_distinct()
        )
    )


def _of_verifier(verdicts: pl.LazyFrame) -> pl.LazyFrame:
    """Magnitude 1 for a pass, else the severity."""
    passed = pl.col("outcome") == "pass"
    return verdicts.select(
        "lane_id",
        "step",
        episode_step=pl.col("step"),
        order=pl.lit(-1, pl.Int32),
        source=pl.lit("verifier", pl.Enum(FEEDBACK_SOURCES)),
        channel=pl.lit("explicit", pl.Enum(CHANNELS)),
        polarity=pl.when(passed)
        .then(pl.lit("positive"))
        .otherwise(pl.lit("negative"))
        .cast(pl.Enum(POLARITIES)),
        magnitude=pl.when(passed).then(1.0).otherwise("verifier_severity"),
        text_id=pl.lit(None, pl.Int64),
        execution_id=pl.col("execution_id"),
        outcome=pl.col("outcome").cast(pl.Enum(OUTCOMES)),
        outcome_source=pl.lit("payload", pl.Enum(OUTCOME_SOURCES)),
        verifier_severity=pl.col("verifier_severity"),
        quarantine=pl.lit(None, pl.Enum(QUARANTINE_REASONS)),
    )


def _of_people(remarks: pl.LazyFrame, settings: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """The text decides the outcome where no payload did."""
    said = library.features(remarks.select("text_id"))
    by_text = text_outcome()
    from_payload = pl.col("outcome").is_not_null()
    return (
        remarks.join(said, on="text_id", how="left", maintain_order="left")
        .join(
            settings.select("lane_id", "feedback_default_magnitude"),
            on="lane_id",
            how="left",
            maintain_order="left",
        )
        .select(
            "lane_id",
            "step",
            "episode_step",
            pl.col("order").cast(pl.Int32),
            pl.col("source").cast(pl.Enum(FEEDBACK_SOURCES)),
            pl.col("channel").cast(pl.Enum(CHANNELS)),
            pl.col("polarity").cast(pl.Enum(POLARITIES)),
            pl.coalesce("magnitude", "feedback_default_magnitude"),
            "text_id",
            "execution_id",
            outcome=pl.coalesce(pl.col("outcome").cast(pl.String), by_text).cast(pl.Enum(OUTCOMES)),
            outcome_source=pl.when(from_payload)
            .then(pl.lit("payload"))
            .when(by_text != "none")
            .then(pl.lit("text"))
            .otherwise(pl.lit("none"))
            .cast(pl.Enum(OUTCOME_SOURCES)),
            verifier_severity=pl.col("verifier_severity"),
            quarantine=pl.col("quarantine").cast(pl.Enum(QUARANTINE_REASONS)),
        )
    )


def text_outcome() -> pl.Expr:
    """What a text says of the result, from its `polarity` and the columns of `classified`.

    Fail: it states a fault, or it is negative and asks for anything else than what was done
    (a preference says nothing about the result). Pass: it approves, and is positive, or is neutral
    and speaks of nothing but the result or of what worked.
    """
    negative, positive = pl.col("polarity") == "negative", pl.col("polarity") == "positive"
    asks = pl.col("shape").is_in(["correction", "constraint", "instruction"])
    fails = (pl.col("rejects") & ~(positive & pl.col("approves"))) | (
        negative & (asks | pl.col("criticises"))
    )
    return (
        pl.when(fails)
        .then(pl.lit("fail"))
        .when(pl.col("approves") & (positive | (pl.col("of_the_result") & ~negative)))
        .then(pl.lit("pass"))
        .otherwise(pl.lit("none"))
    )
