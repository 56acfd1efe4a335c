"""Experiences: typed, reusable lessons (the plan extends the table `policies`)."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import (
    ANCHOR_TYPES,
    CHECK_KINDS,
    DIRECTIVE_SIGNS,
    EVIDENCE_POLARITIES,
    EXPERIENCE_SOURCES,
    EXPERIENCE_TYPES,
    LIFECYCLE_STATUSES,
    STEP_SPAN,
)

#: The polarity a type must carry; the others follow their outcome.
TYPE_POLARITY = {
    "success_pattern": "positive",
    "repair_validated": "mixed",
    "preference": "neutral",
}


class Policies(dy.Schema):
    """A row version per change; "memory as of step t" is the newest version with updated_step <= t.

    Texts are ids into `texts`: `lesson_text_id` is what was learned (compared when lessons are
    matched), `text_id` is what recall searches (title, trigger, lesson and guidance, without labels
    or ids). Guidance lines are rows of `guidance`.
    """

    lane_id = dy.Int64(primary_key=True)
    policy_id = dy.Int64(primary_key=True, min=0)
    updated_step = dy.Int32(primary_key=True, min=0)
    created_step = dy.Int32(min=0)
    experience_type = dy.Enum(EXPERIENCE_TYPES)
    evidence_polarity = dy.Enum(EVIDENCE_POLARITIES)
    skill_eligible = dy.Bool()
    status = dy.Enum(LIFECYCLE_STATUSES)
    source = dy.Enum(EXPERIENCE_SOURCES)
    directive_sign = dy.Enum(DIRECTIVE_SIGNS)
    title_text_id = dy.Int64()
    trigger_text_id = dy.Int64()
    procedure_text_id = dy.Int64()
    verification_text_id = dy.Int64()
    boundary_text_id = dy.Int64()
    lesson_text_id = dy.Int64()
    #: The query of the task it was first learned in: what such a task reads like. Null where that
    #: task had no instruction.
    context_text_id = dy.Int64(nullable=True)
    text_id = dy.Int64()
    support = dy.Int32(min=1)
    gain = dy.Float64(min=-1, max=1)
    salience = dy.Float64(min=0, max=1)
    confidence = dy.Float64(min=0, max=1)
    validations = dy.Int32(min=0)
    #: Of the validations, those by a replayed trial whose agent did not see the packet.
    observational_validations = dy.Int32(min=0)
    contradictions = dy.Int32(min=0)
    check_kind = dy.Enum(CHECK_KINDS, nullable=True)
    check_key = dy.String(nullable=True)
    field = dy.String(nullable=True)
    domain = dy.String(nullable=True)
    tool = dy.String(nullable=True)
    #: File names of the tasks it was learned in: part of when it applies.
    file_names = dy.List(dy.String(), nullable=False)
    source_feedback_ids = dy.List(dy.Int64(), nullable=False)
    source_trace_ids = dy.List(dy.Int64(), nullable=False)
    source_episode_ids = dy.List(dy.Int32(), nullable=False, min_length=1)
    verifier_meta = dy.Struct(
        {
            "family": dy.String(nullable=True),
            "task": dy.String(nullable=True),
            "check": dy.String(nullable=True),
            "expected": dy.String(nullable=True),
            "actual": dy.String(nullable=True),
        },
        nullable=True,
    )

    @dy.rule()
    def only_success_may_seed_a_skill(cls) -> pl.Expr:
        return ~pl.col("skill_eligible") | (
            pl.col("experience_type").is_in(ANCHOR_TYPES)
            & pl.col("evidence_polarity").is_in(["positive", "mixed"])
        )

    @dy.rule()
    def type_and_polarity_agree(cls) -> pl.Expr:
        expected = pl.col("experience_type").replace_strict(
            TYPE_POLARITY, default=None, return_dtype=pl.String
        )
        return (expected == pl.col("evidence_polarity").cast(pl.String)).fill_null(
            pl.col("evidence_polarity").is_in(["negative", "neutral"])
        )

    @dy.rule()
    def a_validated_repair_was_validated(cls) -> pl.Expr:
        return (pl.col("experience_type") != "repair_validated") | (pl.col("validations") >= 1)

    @dy.rule()
    def observational_validations_are_validations(cls) -> pl.Expr:
        return pl.col("observational_validations") <= pl.col("validations")

    @dy.rule()
    def updated_after_created(cls) -> pl.Expr:
        return pl.col("updated_step") >= pl.col("created_step")

    @dy.rule()
    def id_tells_the_step(cls) -> pl.Expr:
        return pl.col("policy_id") // STEP_SPAN == pl.col("created_step")

    @dy.rule()
    def support_counts_feedback(cls) -> pl.Expr:
        return (pl.col("source") == "induction") | (
            pl.col("support") == pl.col("source_feedback_ids").list.len()
        )
