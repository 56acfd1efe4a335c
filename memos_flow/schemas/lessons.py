"""The actionable sentences and failed checks of a feedback."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import (
    CHECK_KINDS,
    DIRECTIVE_SIGNS,
    DROP_REASONS,
    EVIDENCE_POLARITIES,
    EXPERIENCE_TYPES,
    LESSON_EFFECTS,
    LESSON_ORIGINS,
    SHAPES,
    STEP_SPAN,
)


class Lessons(dy.Schema):
    """Every lesson ends as an effect on one experience, or with the reason it was dropped."""

    lane_id = dy.Int64(primary_key=True)
    lesson_id = dy.Int64(primary_key=True, min=0)
    feedback_id = dy.Int64(min=0)
    step = dy.Int32(min=0)
    episode_step = dy.Int32(min=0)
    origin = dy.Enum(LESSON_ORIGINS)
    text_id = dy.Int64(nullable=True)
    #: Null where nobody said it: lessons from checks and traces.
    shape = dy.Enum(SHAPES, nullable=True)
    directive_sign = dy.Enum(DIRECTIVE_SIGNS, nullable=True)
    check_kind = dy.Enum(CHECK_KINDS, nullable=True)
    check_key = dy.String(nullable=True)
    field = dy.String(nullable=True)
    magnitude = dy.Float64(min=0, max=1)
    classifier_confidence = dy.Float64(min=0, max=1)
    #: The lesson's own severity where it has checks, else its feedback's.
    verifier_severity = dy.Float64(min=0, max=1)
    r_task = dy.Float64(min=-1, max=1)
    salience = dy.Float64(min=0, max=1)
    actionable = dy.Bool()
    significant = dy.Bool()
    experience_type = dy.Enum(EXPERIENCE_TYPES, nullable=True)
    evidence_polarity = dy.Enum(EVIDENCE_POLARITIES, nullable=True)
    dropped = dy.Enum(DROP_REASONS, nullable=True)
    effect = dy.Enum(LESSON_EFFECTS, nullable=True)
    policy_id = dy.Int64(nullable=True, min=0)

    @dy.rule()
    def has_an_effect_or_a_reason(cls) -> pl.Expr:
        return pl.col("dropped").is_null() == pl.col("effect").is_not_null()

    @dy.rule()
    def an_effect_names_its_experience(cls) -> pl.Expr:
        return pl.col("effect").is_null() == pl.col("policy_id").is_null()

    @dy.rule()
    def only_significant_lessons_have_an_effect(cls) -> pl.Expr:
        return pl.col("effect").is_null() | (pl.col("significant") & pl.col("actionable"))

    @dy.rule()
    def id_tells_the_step(cls) -> pl.Expr:
        return pl.col("lesson_id") // STEP_SPAN == pl.col("step")
