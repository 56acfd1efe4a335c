"""Merging: drafts join the experience that already says the same, or become one (section 4.4).

A positive draft never merges into a negative experience nor the reverse: that would manufacture a
success anchor.
"""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import Guidance, Policies
from memos_flow.schemas.vocabulary import (
    EVIDENCE_POLARITIES,
    EXPERIENCE_TYPES,
    LESSON_EFFECTS,
    LIFECYCLE_STATUSES,
)

#: Schema Policies without the texts that `rendering` writes.
UNWORDED = [
    name
    for name in Policies.column_names()
    if name in ("lesson_text_id", "context_text_id") or not name.endswith("text_id")
]

_DRAFT = ["lane_id", "lesson_id"]
_EXPERIENCE = ["lane_id", "policy_id"]
_SETTINGS = [
    "merge_similarity",
    "merge_cross_type_similarity",
    "merge_any_validates",
]
#: What two lessons are compared by.
_COMPARED = ["directive_sign", "experience_type", "check_kind", "field", "lesson_text_id"]


def assigned(
    drafts: pl.LazyFrame,
    policies: pl.LazyFrame,
    validations: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
) -> pl.DataFrame:
    """Where each draft goes: `lane_id`, `lesson_id`, `policy_id`, `effect`.

    Drafts of one step that are the same lesson are folded first, into the earliest of them; each
    fold then joins the repair it validated, else the most similar experience of the memory as it
    was at the start of the step (ties: the oldest), else becomes an experience.
    """
    folds = _folded(drafts, settings, library)
    leaders = drafts.join(
        folds.lazy().filter(pl.col("lesson_id") == pl.col("leader_id")), on=_DRAFT, how="semi"
    )
    matched = _matched(leaders, policies, settings, library)
    by_validation = validations.filter(pl.col("lesson_id").is_not_null()).select(
        *_DRAFT, validated_id="policy_id"
    )
    by_validation = by_validation.unique(_DRAFT, keep="first", maintain_order=True)
    return (
        folds.lazy()
        .join(by_validation, on=_DRAFT, how="left")
        .join(matched, left_on=["lane_id", "leader_id"], right_on=_DRAFT, how="left")
        .with_columns(
            # The whole fold follows a member that validated a repair.
            validated_id=pl.col("validated_id").min().over("lane_id", "leader_id")
        )
        .select(
            *_DRAFT,
            policy_id=pl.coalesce("validated_id", "matched_id", "leader_id"),
            effect=pl.when(pl.col("validated_id").is_not_null())
            .then(pl.lit("validated"))
            .when(pl.col("matched_id").is_not_null())
            .then(pl.lit("merged"))
            .when(pl.col("leader_id") == pl.col("lesson_id"))
            .then(pl.lit("created"))
            .otherwise(pl.lit("folded"))
            .cast(pl.Enum(LESSON_EFFECTS)),
        )
        .sort(_DRAFT)
        .collect(engine="in-memory")
    )


def merged(
    drafts: pl.LazyFrame,
    effects: pl.LazyFrame,
    policies: pl.LazyFrame,
    revised: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    """The experiences that the step created or changed: schema Policies without its wording.

    `revised`: the versions that the step made already, by validation and by late feedback.

    Support grows once per distinct feedback, salience, confidence and gain by maximum, provenance
    by union. A repair that merely repeats a validated one counts as a contradiction of it.
    """
    placed = drafts.drop("policy_id").join(effects, on=_DRAFT, how="inner").sort(_DRAFT)
    joined = policies.join(revised, on=_EXPERIENCE, how="anti").join(
        placed, on=_EXPERIENCE, how="semi"
    )
    created = placed.filter(pl.col("effect") == "created")
    base = pl.concat([frame.select(UNWORDED) for frame in (revised, joined, created)])
    additions = placed.group_by(_EXPERIENCE).agg(
        pl.col("step", "salience", "confidence", "gain").max().name.prefix("new_"),
        pl.col("source_feedback_ids", "source_trace_ids", "source_episode_ids")
        .list.explode()
        .name.prefix("new_"),
        repairs=(pl.col("experience_type") == "repair_instruction").sum().cast(pl.Int32),
        successes=(pl.col("experience_type") == "success_pattern").sum().cast(pl.Int32),
        others=(pl.col("experience_type") != "success_pattern").sum().cast(pl.Int32),
    )
    rows = base.join(additions, on=_EXPERIENCE, how="left").join(
        settings.select("lane_id", "merge_any_validates", "draft_active_confidence"),
        on="lane_id",
        how="left",
    )
    return _with_additions(rows).select(UNWORDED).sort(_EXPERIENCE)


def new_lines(
    drafts: pl.LazyFrame,
    effects: pl.LazyFrame,
    guidance: dy.LazyFrame[Guidance],
    settings: pl.LazyFrame,
    library: Library,
) -> dy.LazyFrame[Guidance]:
    """The guidance lines that the drafts add: what says the same as an earlier line is left out."""
    said = (
        drafts.drop("policy_id")
        .join(effects, on=_DRAFT, how="inner")
        .select(
            *_EXPERIENCE,
            "step",
            kind="line_kind",
            text_id="lesson_text_id",
            feedback_id=pl.col("source_feedback_ids").list.first(),
            order="lesson_id",
        )
    )
    known = guidance.join(said, on=_EXPERIENCE, how="semi").with_columns(order=pl.lit(-1, pl.Int64))
    lines = (
        pl.concat([known, said], how="diagonal")
        .sort(*_EXPERIENCE, "order", "step", "text_id")
        .unique([*_EXPERIENCE, "kind", "text_id"], keep="first", maintain_order=True)
    )
    pairs = (
        lines.filter(pl.col("order") >= 0)
        .join(lines, on=[*_EXPERIENCE, "kind"], how="inner", suffix="_before")
        .filter(
            (pl.col("order_before") < pl.col("order"))
            & (pl.col("text_id") != pl.col("text_id_before"))
        )
        .join(
            settings.select("lane_id", "merge_near_duplicate_similarity"), on="lane_id", how="left"
        )
    )
    repeated = library.compared(pairs, "text_id", "text_id_before", "similarity").filter(
        pl.col("similarity") >= pl.col("merge_near_duplicate_similarity")
    )
    return Guidance.cast(
        lines.filter(pl.col("order") >= 0)
        .join(repeated, on=[*_EXPERIENCE, "kind", "text_id"], how="anti")
        .sort(*_EXPERIENCE, "order")
    )


def current_lines(guidance: dy.LazyFrame[Guidance], settings: pl.LazyFrame) -> pl.LazyFrame:
    """The newest lines of each kind that the variant keeps, with their place as `line`."""
    newest = ["step", "feedback_id", "text_id"]
    return (
        guidance.join(settings.select("lane_id", "merge_guidance_lines"), on="lane_id", how="left")
        .sort(*_EXPERIENCE, *newest, nulls_last=True)
        .with_columns(
            from_newest=pl.int_range(pl.len(), 0, -1).over(*_EXPERIENCE, "kind"),
        )
        .filter(pl.col("from_newest") <= pl.col("merge_guidance_lines"))
        .with_columns(line=pl.int_range(pl.len(), dtype=pl.Int32).over(_EXPERIENCE))
        .drop("from_newest", "merge_guidance_lines")
    )


def _with_additions(rows: pl.LazyFrame) -> pl.LazyFrame:
    mixes = (pl.col("experience_type") == "success_pattern") & (pl.col("others") > 0)
    mixes |= pl.col("experience_type").is_in(["repair_instruction", "failure_avoidance"]) & (
        pl.col("successes") > 0
    )
    manufactured = (pl.col("merge_any_validates") & mixes).fill_null(False)
    contradicted = pl.col("experience_type") == "repair_validated"
    united = {
        name: pl.concat_list(name, pl.col(f"new_{name}").fill_null([])).list.unique(
            maintain_order=True
        )
        for name in ("source_feedback_ids", "source_trace_ids", "source_episode_ids")
    }
    new_support = (
        united["source_feedback_ids"].list.len() - pl.col("source_feedback_ids").list.len()
    )
    confidence = pl.max_horizontal("confidence", "new_confidence")
    activated = (confidence >= pl.col("draft_active_confidence")) & (
        pl.col("status") == "candidate"
    )
    return rows.with_columns(
        updated_step=pl.coalesce("new_step", "updated_step"),
        support=pl.col("support") + new_support.cast(pl.Int32),
        salience=pl.max_horizontal("salience", "new_salience"),
        confidence=confidence,
        gain=pl.max_horizontal("gain", "new_gain"),
        contradictions=pl.col("contradictions")
        + pl.when(contradicted).then(pl.col("repairs").fill_null(0)).otherwise(0),
        experience_type=pl.when(manufactured)
        .then(pl.lit("repair_validated"))
        .otherwise(pl.col("experience_type").cast(pl.String))
        .cast(pl.Enum(EXPERIENCE_TYPES)),
        evidence_polarity=pl.when(manufactured)
        .then(pl.lit("mixed"))
        .otherwise(pl.col("evidence_polarity").cast(pl.String))
        .cast(pl.Enum(EVIDENCE_POLARITIES)),
        skill_eligible=pl.col("skill_eligible") | manufactured,
        validations=pl.max_horizontal("validations", manufactured.cast(pl.Int32)),
        status=pl.when(manufactured | activated)
        .then(pl.lit("active"))
        .otherwise(pl.col("status").cast(pl.String))
        .cast(pl.Enum(LIFECYCLE_STATUSES)),
        **united,
    )


def _folded(drafts: pl.LazyFrame, settings: pl.LazyFrame, library: Library) -> pl.DataFrame:
    """`lane_id`, `lesson_id`, `leader_id`: the earliest draft of the step with the same lesson.

    Same as an earlier one that itself is the same as a still earlier one: both follow the first.
    """
    left = drafts.select(*_DRAFT, *_COMPARED)
    right = left.rename({name: f"{name}_known" for name in ("lesson_id", *_COMPARED)})
    pairs = left.join(right, on="lane_id", how="inner").filter(
        pl.col("lesson_id_known") < pl.col("lesson_id")
    )
    earliest = (
        _same_lesson(pairs, settings, library)
        .group_by(_DRAFT)
        .agg(leader_id=pl.col("lesson_id_known").min())
    )
    folds = (
        drafts.select(_DRAFT)
        .join(earliest, on=_DRAFT, how="left")
        .with_columns(pl.col("leader_id").fill_null(pl.col("lesson_id")))
        .sort(_DRAFT)
        .collect(engine="in-memory")
    )
    while True:
        further = folds.join(
            folds.select("lane_id", leader_id="lesson_id", further_id="leader_id"),
            on=["lane_id", "leader_id"],
            how="left",
            maintain_order="left",
        ).select(*_DRAFT, leader_id="further_id")
        if further.equals(folds):
            return folds
        folds = further


def _matched(
    leaders: pl.LazyFrame, policies: pl.LazyFrame, settings: pl.LazyFrame, library: Library
) -> pl.LazyFrame:
    """`lane_id`, `lesson_id`, `matched_id`: the experience that says the same, where one does."""
    known = policies.filter(pl.col("status") != "archived").select(
        "lane_id", "policy_id", *(pl.col(name).alias(f"{name}_known") for name in _COMPARED)
    )
    pairs = leaders.select(*_DRAFT, *_COMPARED).join(known, on="lane_id", how="inner")
    return (
        _same_lesson(pairs, settings, library)
        .sort(
            *_DRAFT,
            "same_check",
            "similarity",
            "policy_id",
            descending=[False, False, True, True, False],
        )
        .unique(_DRAFT, keep="first", maintain_order=True)
        .select(*_DRAFT, matched_id="policy_id")
    )


def _same_lesson(pairs: pl.LazyFrame, settings: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """The pairs (x, x_known) that are the same lesson, with `similarity` and `same_check`.

    Equal directive sign, and similar texts or the same check kind and non-null field. Only equal
    types, or an avoidance with a repair at the higher similarity; a new repair joins a validated
    one.
    """
    kind, known = (
        pl.col("experience_type").cast(pl.String),
        pl.col("experience_type_known").cast(pl.String),
    )
    crossing = ((kind == "failure_avoidance") & (known == "repair_instruction")) | (
        (kind == "repair_instruction") & (known == "failure_avoidance")
    )
    joining = (kind == "repair_instruction") & (known == "repair_validated")
    anything = pl.col("merge_any_validates") & (kind != "preference") & (known != "preference")
    same_check = (
        (pl.col("check_kind") == pl.col("check_kind_known"))
        & (pl.col("field") == pl.col("field_known"))
    ).fill_null(False)
    comparable = (
        pairs.filter(pl.col("directive_sign") == pl.col("directive_sign_known"))
        .join(settings.select("lane_id", *_SETTINGS), on="lane_id", how="left")
        .filter((kind == known) | crossing | joining | anything)
        .with_columns(
            same_check=same_check,
            threshold=pl.when(crossing)
            .then("merge_cross_type_similarity")
            .otherwise("merge_similarity"),
        )
    )
    return library.compared(
        comparable, "lesson_text_id", "lesson_text_id_known", "similarity"
    ).filter(pl.col("same_check") | (pl.col("similarity") >= pl.col("threshold")))
