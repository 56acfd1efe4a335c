"""Validation: an earlier repair is confirmed by a passed trial that exercised it (section 4.4)."""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import Checks, Policies, Skills, Trials

_EXPERIENCE = ["lane_id", "policy_id"]


def validations(
    policies: dy.LazyFrame[Policies],
    drafts: pl.LazyFrame,
    trials: dy.LazyFrame[Trials],
    checks: dy.LazyFrame[Checks],
    carried: pl.LazyFrame,
    skills: dy.LazyFrame[Skills],
    settings: pl.LazyFrame,
    library: Library,
) -> pl.LazyFrame:
    """The experiences that this step's trials validated: `lane_id`, `policy_id`, `step`,
    `observational`, and `lesson_id` of the success draft that did it (null: the check itself did).

    A trial must have passed with the experience in its packet, as its own line or a line of a
    recalled skill (`carried`: `lane_id`, `channel`, `item_id`), and its lesson must have been
    exercised. Merging alone never validates.
    """
    shown = (
        policies.filter(pl.col("experience_type").is_in(_CAN_BE_VALIDATED))
        .join(_through(carried, skills), on=_EXPERIENCE, how="semi")
        .join(
            trials.filter(pl.col("passed").fill_null(False)).select(
                "lane_id", "execution_id", "step"
            ),
            on="lane_id",
            how="inner",
        )
        .join(
            settings.select("lane_id", "observational", "validation_similarity"),
            on="lane_id",
            how="left",
        )
    )
    kept = [*_EXPERIENCE, "step", "observational", "lesson_id"]
    by_check = (
        shown.filter(pl.col("check_key").is_not_null())
        .join(
            checks.filter("passed").select("execution_id", "check_key", "field").unique(),
            on=["execution_id", "check_key", "field"],
            how="semi",
            nulls_equal=True,
        )
        .with_columns(lesson_id=pl.lit(None, pl.Int64))
    )
    successes = drafts.filter(pl.col("experience_type") == "success_pattern").select(
        "lane_id", "lesson_id", "directive_sign", success_text_id="lesson_text_id"
    )
    similar = shown.filter(pl.col("check_key").is_null()).join(
        successes, on=["lane_id", "directive_sign"], how="inner"
    )
    by_success = (
        library.compared(similar, "lesson_text_id", "success_text_id", "similarity")
        .filter(pl.col("similarity") >= pl.col("validation_similarity"))
        .sort(*_EXPERIENCE, "similarity", "lesson_id", descending=[False, False, True, False])
        .unique(_EXPERIENCE, keep="first", maintain_order=True)
    )
    return pl.concat([by_check.select(kept), by_success.select(kept)]).sort(_EXPERIENCE)


#: A preference says nothing about correctness, and a success needs no validation.
_CAN_BE_VALIDATED = ["repair_instruction", "repair_validated", "failure_avoidance"]


def _through(carried: pl.LazyFrame, skills: dy.LazyFrame[Skills]) -> pl.LazyFrame:
    """`lane_id`, `policy_id` of what the packet held, directly or through a skill."""
    own = carried.filter(pl.col("channel") == "experience").select("lane_id", policy_id="item_id")
    through_skill = (
        carried.filter(pl.col("channel") == "skill")
        .select("lane_id", skill_id="item_id")
        .join(skills, on=["lane_id", "skill_id"], how="inner")
        .select("lane_id", policy_id="source_policy_ids")
        .explode("policy_id")
    )
    return pl.concat([own, through_skill]).unique()


def validated(
    policies: dy.LazyFrame[Policies],
    validations: pl.LazyFrame,
    trials_reward: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    """New versions of the validated experiences.

    A `repair_instruction` becomes `repair_validated` (mixed, may seed a skill, gain at least half
    of the validating episode's reward); any other keeps its type. Each validation moves the
    confidence `validation.confidence_step` of the way to 1. `trials_reward`: `lane_id`, `r_task`.
    """
    repaired = pl.col("experience_type").is_in(["repair_instruction", "repair_validated"])
    return (
        policies.join(
            validations.select(*_EXPERIENCE, "step", "observational"), on=_EXPERIENCE, how="inner"
        )
        .join(trials_reward, on="lane_id", how="left")
        .join(settings.select("lane_id", "validation_confidence_step"), on="lane_id", how="left")
        .with_columns(
            updated_step=pl.col("step"),
            experience_type=pl.when(repaired)
            .then(pl.lit("repair_validated", Policies.columns()["experience_type"].dtype))
            .otherwise("experience_type"),
            evidence_polarity=pl.when(repaired)
            .then(pl.lit("mixed", Policies.columns()["evidence_polarity"].dtype))
            .otherwise("evidence_polarity"),
            skill_eligible=repaired,
            status=pl.when(repaired)
            .then(pl.lit("active", Policies.columns()["status"].dtype))
            .otherwise("status"),
            gain=pl.when(repaired)
            .then(pl.max_horizontal("gain", pl.col("r_task").fill_null(0).clip(0, 1) / 2))
            .otherwise("gain"),
            validations=pl.col("validations") + 1,
            observational_validations=pl.col("observational_validations")
            + pl.col("observational").cast(pl.Int32),
            confidence=pl.col("confidence")
            + (1 - pl.col("confidence")) * pl.col("validation_confidence_step"),
        )
        .select(Policies.column_names())
    )
