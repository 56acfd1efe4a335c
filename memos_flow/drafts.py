"""Drafts: what kind of experience a lesson is, and how it reads (section 4.3)."""

import polars as pl

from memos_flow.schemas.vocabulary import (
    ANCHOR_TYPES,
    DIRECTIVE_SIGNS,
    DROP_REASONS,
    EVIDENCE_POLARITIES,
    EXPERIENCE_SOURCES,
    EXPERIENCE_TYPES,
    GUIDANCE_KINDS,
    LIFECYCLE_STATUSES,
    STEP_SPAN,
)
from memos_flow.wording import sentence

#: The packet's line for each type: advice to follow, to shun, or to verify.
GUIDANCE_OF_TYPE = {
    "success_pattern": "prefer",
    "repair_validated": "prefer",
    "preference": "prefer",
    "failure_avoidance": "avoid",
    "repair_instruction": "check",
}


def typed(lessons: pl.LazyFrame) -> pl.LazyFrame:
    """Add `experience_type` and `evidence_polarity`; praise on a failure is dropped.

    The sign decides the type, never the size (red line 2), and the objective outcome beats the
    wording: nothing said about a failed trial becomes a success.
    """
    counts = pl.col("dropped").is_null()
    failed = pl.col("outcome") == "fail"
    passed = pl.col("outcome") == "pass"
    # A payload whose parts contradict each other proves nothing, nor does praise in a bad mood.
    contradicted = (pl.col("outcome") == "none") & (
        (pl.col("outcome_source") == "payload") | (pl.col("polarity") == "negative")
    )
    worked = pl.col("says_what_worked") & ~pl.col("criticises")
    directs = pl.col("expects") | (pl.col("directive_sign") == "do").fill_null(False)
    directs |= pl.col("shape").is_in(["correction", "constraint", "instruction"])
    forbids = pl.col("directive_sign") == "do_not"
    praises = (worked | (pl.col("shape") == "positive")) & ~pl.col("expects")
    kind = (
        pl.when(pl.col("shape") == "preference")
        .then(pl.lit("preference"))
        .when(passed & worked)
        .then(pl.lit("success_pattern"))
        .when(passed)
        .then(pl.lit("repair_instruction"))
        .when(forbids)
        .then(pl.lit("failure_avoidance"))
        .when((failed | contradicted) & praises)
        .then(None)
        .when(failed & ~directs)
        .then(pl.lit("failure_avoidance"))
        .when(failed)
        .then(pl.lit("repair_instruction"))
        .when(praises & worked)
        .then(pl.lit("success_pattern"))
        .otherwise(pl.lit("repair_instruction"))
    )
    polarity = (
        pl.when(pl.col("experience_type") == "success_pattern")
        .then(pl.lit("positive"))
        .when(pl.col("experience_type") == "preference")
        .then(pl.lit("neutral"))
        .when(failed | (pl.col("experience_type") == "failure_avoidance"))
        .then(pl.lit("negative"))
        .otherwise(pl.lit("neutral"))
    )
    return lessons.with_columns(
        experience_type=pl.when(counts).then(kind).cast(pl.Enum(EXPERIENCE_TYPES))
    ).with_columns(
        dropped=pl.when(counts & pl.col("experience_type").is_null())
        .then(pl.lit("praise-on-failure", pl.Enum(DROP_REASONS)))
        .otherwise("dropped"),
        evidence_polarity=pl.when(pl.col("experience_type").is_not_null())
        .then(polarity)
        .cast(pl.Enum(EVIDENCE_POLARITIES)),
    )


def drafts(lessons: pl.LazyFrame, tasks: pl.LazyFrame, settings: pl.LazyFrame) -> pl.LazyFrame:
    """One experience draft per lesson that counts, with the columns of Policies but its wording.

    `tasks`: `lane_id`, `episode_step`, `family`, `task`, `query_text_id`,
    `file_names`, `domain`, `tool`. Further
    columns: `lesson_id`, `step` and `line_kind` of its guidance line. `policy_id` is what the draft
    gets if it creates an experience.
    """
    from_check = pl.col("origin") == "check"
    success = pl.col("experience_type") == "success_pattern"
    counting = (
        lessons.filter(pl.col("dropped").is_null())
        .join(tasks, on=["lane_id", "episode_step"], how="left")
        .join(
            settings.select("lane_id", "draft_check_confidence", "draft_active_confidence"),
            on="lane_id",
            how="left",
        )
        .with_columns(
            confidence=pl.when(from_check | (pl.col("origin") == "traces"))
            .then("draft_check_confidence")
            .otherwise("classifier_confidence"),
            skill_eligible=pl.col("experience_type").is_in(ANCHOR_TYPES),
            gain=pl.when(success).then(pl.col("r_task").clip(0, 1)).otherwise(0.0),
            line_kind=sentence(GUIDANCE_OF_TYPE, pl.col("experience_type")).cast(
                pl.Enum(GUIDANCE_KINDS)
            ),
        )
    )
    active = success | (pl.col("confidence") >= pl.col("draft_active_confidence"))
    status = pl.when(active).then(pl.lit("active")).otherwise(pl.lit("candidate"))
    traces = pl.col("trace_positions").cast(pl.List(pl.Int64)).fill_null([])
    return counting.select(
        "lane_id",
        "lesson_id",
        "step",
        "line_kind",
        policy_id="lesson_id",
        updated_step=pl.col("step"),
        created_step=pl.col("step"),
        experience_type="experience_type",
        evidence_polarity="evidence_polarity",
        skill_eligible="skill_eligible",
        status=status.cast(pl.Enum(LIFECYCLE_STATUSES)),
        source=pl.col("source").cast(pl.String).cast(pl.Enum(EXPERIENCE_SOURCES)),
        # A bare fact about a failure says what not to repeat.
        directive_sign=pl.coalesce(
            pl.col("directive_sign").cast(pl.String),
            pl.when(pl.col("experience_type") == "failure_avoidance")
            .then(pl.lit("do_not"))
            .otherwise(pl.lit("do")),
        ).cast(pl.Enum(DIRECTIVE_SIGNS)),
        lesson_text_id="text_id",
        context_text_id="query_text_id",
        support=pl.lit(1, pl.Int32),
        gain="gain",
        salience="salience",
        confidence="confidence",
        validations=pl.lit(0, pl.Int32),
        observational_validations=pl.lit(0, pl.Int32),
        contradictions=pl.lit(0, pl.Int32),
        check_kind="check_kind",
        check_key="check_key",
        field="field",
        domain="domain",
        tool="tool",
        file_names=pl.col("file_names").fill_null([]),
        source_feedback_ids=pl.concat_list("feedback_id"),
        source_trace_ids=traces + pl.col("episode_step").cast(pl.Int64) * STEP_SPAN,
        source_episode_ids=pl.concat_list("episode_step"),
        verifier_meta=pl.when(from_check).then(
            pl.struct("family", "task", pl.col("check_name").alias("check"), "expected", "actual")
        ),
    )
