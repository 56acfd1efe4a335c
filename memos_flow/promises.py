"""What every step promises, per lane, as k of n opportunities (section 4.9)."""

import dataframely as dy
import polars as pl

from memos_flow.schemas import Feedback, Opportunities, Policies, Trials
from memos_flow.schemas.opportunities import CRITERIA


def opportunities(
    trials: dy.LazyFrame[Trials],
    feedback: dy.LazyFrame[Feedback],
    lessons: pl.LazyFrame,
    changed: dy.LazyFrame[Policies],
    known: dy.LazyFrame[Policies],
    failures: pl.LazyFrame,
    carried: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> dy.LazyFrame[Opportunities]:
    """C1, C2 and C3 of the step; a setting that switches a path off is not an opportunity.

    C1: a scored trial has its structured feedback. C2: an actionable significant feedback changed
    an experience. C3: where the memory held a lesson with the kind and non-null field of a check
    that fails now, the packet contained one (`carried`: `lane_id`, `channel`, `item_id`).
    """
    parts = [
        _feedback_grew(trials, feedback),
        _experience_changed(lessons, changed),
        _relevant_recalled(trials, known, failures, carried, settings),
    ]
    return Opportunities.cast(
        pl.concat(
            [
                part.select(
                    "lane_id",
                    "step",
                    criterion=pl.lit(name, pl.Enum(CRITERIA)),
                    met=pl.col("met").cast(pl.Int32),
                    opportunities=pl.col("opportunities").cast(pl.Int32),
                )
                for name, part in zip(CRITERIA, parts, strict=True)
            ]
        ).sort("lane_id", "step", "criterion")
    )


def _feedback_grew(trials: dy.LazyFrame[Trials], feedback: dy.LazyFrame[Feedback]) -> pl.LazyFrame:
    from_verifier = feedback.filter(pl.col("source") == "verifier").select(
        "lane_id", step="episode_step", there=pl.lit(True)
    )
    return (
        trials.filter(pl.col("passed").is_not_null())
        .join(from_verifier.unique(), on=["lane_id", "step"], how="left")
        .select("lane_id", "step", met=pl.col("there").fill_null(False), opportunities=pl.lit(1))
    )


def _experience_changed(lessons: pl.LazyFrame, changed: dy.LazyFrame[Policies]) -> pl.LazyFrame:
    """Judged on the experiences themselves, not on what the merge says of itself."""
    told = changed.select("lane_id", feedback_id="source_feedback_ids").explode("feedback_id")
    return (
        lessons.filter(pl.col("significant") & pl.col("dropped").is_null())
        .select("lane_id", "step", "feedback_id")
        .unique()
        .join(
            told.unique().with_columns(there=pl.lit(True)),
            on=["lane_id", "feedback_id"],
            how="left",
        )
        .group_by("lane_id", "step")
        .agg(met=pl.col("there").fill_null(False).sum(), opportunities=pl.len())
    )


def _relevant_recalled(
    trials: dy.LazyFrame[Trials],
    known: dy.LazyFrame[Policies],
    failures: pl.LazyFrame,
    carried: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    failing = failures.filter(pl.col("field").is_not_null()).select(
        "execution_id", "check_kind", "field"
    )
    relevant = (
        trials.join(
            settings.filter(pl.col("recall_packet") == "memory").select("lane_id"),
            on="lane_id",
            how="semi",
        )
        .select("lane_id", "step", "execution_id")
        .join(failing, on="execution_id", how="inner")
        .join(
            known.filter(pl.col("field").is_not_null()).select(
                "lane_id", "policy_id", "check_kind", "field"
            ),
            on=["lane_id", "check_kind", "field"],
            how="inner",
        )
    )
    held = carried.filter(pl.col("channel") == "experience").select(
        "lane_id", policy_id="item_id", there=pl.lit(True)
    )
    return (
        relevant.join(held, on=["lane_id", "policy_id"], how="left")
        .group_by("lane_id", "step")
        .agg(met=pl.col("there").fill_null(False).any(), opportunities=pl.lit(1))
    )
