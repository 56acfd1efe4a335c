"""Induction: what positive traces of several episodes have in common (section 4.5).

The parallel path beside feedback: traces of value associate with the success that they repeat and
move its gain; the others wait in a pool, and what recurs in several episodes becomes an experience.
"""

import dataframely as dy
import polars as pl

from memos_flow.lessons import THEN
from memos_flow.library import Library
from memos_flow.merging import UNWORDED
from memos_flow.schemas import CandidatePool, Guidance, Policies, Trajectories
from memos_flow.schemas.vocabulary import (
    ANCHOR_TYPES,
    DIRECTIVE_SIGNS,
    EVIDENCE_POLARITIES,
    EXPERIENCE_SOURCES,
    EXPERIENCE_TYPES,
    GUIDANCE_KINDS,
    LIFECYCLE_STATUSES,
    STEP_SPAN,
)

_EXPERIENCE = ["lane_id", "policy_id"]
#: Induced experiences are numbered apart from those that lessons create in the same step.
_FIRST_ID = STEP_SPAN // 2
#: Slots of a signature: primary tag, secondary tag, tool, error code.
_SLOTS = 4


def eligible_traces(
    traces: pl.LazyFrame,
    trajectories: dy.LazyFrame[Trajectories],
    tasks: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    """The traces of value whose action is known and whose task is tagged, with their `signature`.

    `primary tag|secondary tag|tool|error code`. Untagged traces are never pooled.
    """
    value = pl.when("induction_absolute_value").then(pl.col("value").abs()).otherwise("value")
    done = trajectories.select("execution_id", "position", "action_text_id", "tool", "error_code")
    rules = settings.filter("induction_enabled").select(
        "lane_id",
        "clock_days_per_step",
        "merge_guidance_lines",
        "skills_min_gain",
        *(name for name in _SETTINGS),
    )
    return (
        traces.join(rules, on="lane_id", how="inner")
        .filter(value >= pl.col("induction_min_trace_value"))
        .join(done, on=["execution_id", "position"], how="inner")
        .join(
            tasks.select("lane_id", "episode_step", "domain", task_tool="tool"),
            on=["lane_id", "episode_step"],
            how="inner",
        )
        .filter(pl.col("domain").is_not_null() & pl.col("action_text_id").is_not_null())
        .with_columns(
            signature=pl.concat_str(
                [
                    pl.col(name).fill_null("")
                    for name in ("domain", "task_tool", "tool", "error_code")
                ],
                separator="|",
            )
        )
    )


_SETTINGS = [
    "induction_min_trace_value",
    "induction_absolute_value",
    "induction_association_similarity",
    "induction_signature_bonus",
    "induction_min_episodes",
    "induction_softmax_temperature",
    "induction_softmax_min_traces",
    "induction_prior",
    "induction_prior_min",
    "induction_prior_max",
    "induction_pseudo_count",
    "induction_gain_step",
    "induction_archive_gain",
]


def associated(
    fresh: pl.LazyFrame,
    policies: pl.LazyFrame,
    pool: dy.LazyFrame[CandidatePool],
    library: Library,
) -> pl.LazyFrame:
    """`lane_id`, `trace_id`, `policy_id`: the success that each trace of this step repeats.

    Cosine of action and lesson, plus up to `induction.signature_bonus` for equal signature slots,
    at or above `induction.association_similarity`; of another primary tag or another error code:
    never. Only what was induced (`pool` names it) has a tool and an error code.
    """
    signature = pl.col("signature").str.split("|")
    slots = (
        pool.filter(pl.col("policy_id").is_not_null())
        .select(
            *_EXPERIENCE,
            policy_called=signature.list.get(2),
            policy_error=signature.list.get(3),
        )
        .unique()
    )
    successes = (
        policies.filter(
            pl.col("experience_type").is_in(ANCHOR_TYPES) & (pl.col("status") != "archived")
        )
        .select(*_EXPERIENCE, "domain", "lesson_text_id", policy_tool="tool")
        .join(slots, on=_EXPERIENCE, how="left")
    )
    same_error = pl.col("error_code").fill_null("") == pl.col("policy_error")
    pairs = fresh.join(successes, on=["lane_id", "domain"], how="inner").filter(
        same_error.fill_null(True)
    )
    same = (
        pl.col("task_tool") == pl.col("policy_tool"),
        pl.col("tool").fill_null("") == pl.col("policy_called"),
        same_error,
    )
    equal = 1 + pl.sum_horizontal(slot.fill_null(False).cast(pl.Int32) for slot in same)
    near = library.compared(pairs, "action_text_id", "lesson_text_id", "similarity").with_columns(
        similarity=(
            pl.col("similarity") + pl.col("induction_signature_bonus") * equal / _SLOTS
        ).round(6)
    )
    return (
        near.filter(pl.col("similarity") >= pl.col("induction_association_similarity"))
        .sort(
            "lane_id", "trace_id", "similarity", "policy_id", descending=[False, False, True, False]
        )
        .unique(["lane_id", "trace_id"], keep="first", maintain_order=True)
        .select("lane_id", "trace_id", "policy_id")
    )


def regained(
    policies: pl.LazyFrame,
    associations: pl.LazyFrame,
    valued: pl.LazyFrame,
    starts: pl.LazyFrame,
) -> pl.LazyFrame:
    """New versions of the experiences that traces associated with: their trace ids and their gain.

    gain <- (1 - step) * gain + step * (mean(V with) - shrunk mean(V without)). From
    `softmax_min_traces` traces on, the mean with is weighted by softmax(V / temperature); the mean
    without is shrunk to the prior by `pseudo_count`. Archived below `archive_gain`. `valued`: all
    eligible traces of the lane, as they stand now.
    """
    joined = associations.group_by(_EXPERIENCE).agg(new_ids=pl.col("trace_id").sort())
    touched = (
        policies.join(joined, on=_EXPERIENCE, how="inner")
        .join(starts.select("lane_id", "step"), on="lane_id", how="inner")
        .with_columns(
            source_trace_ids=pl.concat_list("source_trace_ids", "new_ids").list.unique(
                maintain_order=True
            )
        )
    )
    effect = _effect(touched, valued)
    step = pl.col("induction_gain_step")
    gain = ((1 - step) * pl.col("gain") + step * pl.col("effect")).round(6).clip(-1, 1)
    return (
        touched.join(effect, on=_EXPERIENCE, how="inner")
        .with_columns(gain=gain, updated_step="step")
        .with_columns(
            status=pl.when(pl.col("gain") < pl.col("induction_archive_gain"))
            .then(pl.lit("archived"))
            .when((pl.col("source") == "induction") & (pl.col("gain") >= pl.col("skills_min_gain")))
            .then(pl.lit("active"))
            .otherwise(pl.col("status").cast(pl.String))
            .cast(pl.Enum(LIFECYCLE_STATUSES))
        )
        .select(UNWORDED)
    )


def _effect(touched: pl.LazyFrame, valued: pl.LazyFrame) -> pl.LazyFrame:
    """`lane_id`, `policy_id`, `effect` of having an experience on the value of traces, and the
    settings that say how it counts. Values are summed as whole millionths: in no order."""
    own = touched.select(*_EXPERIENCE, "domain", trace_id="source_trace_ids").explode("trace_id")
    held = own.with_columns(held=pl.lit(True)).drop("domain")
    rows = (
        touched.select(*_EXPERIENCE, "domain")
        .join(valued, on=["lane_id", "domain"], how="inner")
        .join(held, on=[*_EXPERIENCE, "trace_id"], how="left")
        .with_columns(pl.col("held").fill_null(False))
        .with_columns(
            weight=((pl.col("value") / pl.col("induction_softmax_temperature")).exp() * _MICRO)
            .round()
            .cast(pl.Int64),
        )
    )
    micro = (pl.col("value") * _MICRO).round().cast(pl.Int64)
    within, without = pl.col("held"), ~pl.col("held")
    weighted = (pl.col("weight") * pl.col("value")).round().cast(pl.Int64)
    sums = rows.group_by(_EXPERIENCE).agg(
        *(pl.col(name).first() for name in (*_SETTINGS, "skills_min_gain")),
        number=within.sum(),
        total=micro.filter(within).sum() / _MICRO,
        soft_total=weighted.filter(within).sum(),
        soft_weight=pl.col("weight").filter(within).sum(),
        others=without.sum(),
        others_total=micro.filter(without).sum() / _MICRO,
        pool_mean=micro.sum() / _MICRO / pl.len(),
    )
    soft = pl.col("soft_total") / pl.col("soft_weight")
    mean = pl.col("total") / pl.col("number")
    prior = pl.min_horizontal(
        "induction_prior",
        pl.col("pool_mean").clip(pl.col("induction_prior_min"), pl.col("induction_prior_max")),
    )
    count = pl.col("induction_pseudo_count")
    shrunk = (count * prior + pl.col("others_total")) / (count + pl.col("others"))
    return sums.filter(pl.col("number") > 0).with_columns(
        effect=pl.when(pl.col("number") >= pl.col("induction_softmax_min_traces"))
        .then(soft)
        .otherwise(mean)
        - shrunk
    )


_MICRO = 1_000_000


def pooled(
    fresh: pl.LazyFrame,
    associations: pl.LazyFrame,
    known: dy.LazyFrame[CandidatePool],
    starts: pl.LazyFrame,
) -> dy.LazyFrame[CandidatePool]:
    """The pool rows of this step: traces that repeat no success enter under their signature; a
    bucket that holds enough distinct episodes is released, and names what it induces."""
    entering = fresh.join(associations, on=["lane_id", "trace_id"], how="anti").select(
        "lane_id",
        "signature",
        "trace_id",
        "episode_step",
        entered_step="episode_step",
        fresh=pl.lit(True),
    )
    waiting = known.filter(pl.col("released_step").is_null()).select(
        *("lane_id", "signature", "trace_id", "episode_step", "entered_step"),
        fresh=pl.lit(False),
    )
    needed = fresh.select("lane_id", "induction_min_episodes").unique()
    bucket = ["lane_id", "signature"]
    rows = (
        pl.concat([waiting, entering])
        .join(needed, on="lane_id", how="inner")
        .join(starts.select("lane_id", "step"), on="lane_id", how="inner")
        .with_columns(
            full=pl.col("episode_step").n_unique().over(bucket) >= pl.col("induction_min_episodes")
        )
        .sort(*bucket, "trace_id")
    )
    buckets = (
        rows.filter("full")
        .select(bucket)
        .unique()
        .sort(bucket)
        .with_columns(position=pl.int_range(pl.len(), dtype=pl.Int64).over("lane_id"))
    )
    return CandidatePool.cast(
        rows.join(buckets, on=bucket, how="left", maintain_order="left")
        .filter(pl.col("fresh") | pl.col("full"))
        .with_columns(
            updated_step="step",
            released_step=pl.when("full").then("step"),
            policy_id=pl.when("full").then(
                pl.col("step").cast(pl.Int64) * STEP_SPAN + _FIRST_ID + pl.col("position")
            ),
        )
        .select(CandidatePool.column_names())
        .sort(*bucket, "trace_id")
    )


def induced(
    pool: dy.LazyFrame[CandidatePool],
    valued: pl.LazyFrame,
    tasks: pl.LazyFrame,
    library: Library,
) -> pl.LazyFrame:
    """One success per released bucket: schema Policies without its wording.

    Its lesson: the actions that recur in several of its episodes, in the order of the first; where
    none recurs, the action of the most value.
    """
    rows = (
        pool.filter(pl.col("policy_id").is_not_null())
        .select("lane_id", "policy_id", "trace_id", step="released_step")
        .join(valued, on=["lane_id", "trace_id"], how="inner")
        .sort(*_EXPERIENCE, "trace_id")
        .with_columns(
            episodes=pl.col("episode_step").n_unique().over(*_EXPERIENCE, "action_text_id")
        )
    )
    recurs = pl.col("episodes") >= pl.col("induction_min_episodes")
    any_recurs = recurs.any().over(_EXPERIENCE)
    best = pl.col("value") == pl.col("value").max().over(_EXPERIENCE)
    told = (
        rows.filter(pl.when(any_recurs).then(recurs).otherwise(best))
        .unique([*_EXPERIENCE, "action_text_id"], keep="first", maintain_order=True)
        .filter(pl.int_range(pl.len()).over(_EXPERIENCE) < pl.col("merge_guidance_lines"))
    )
    lessons = (
        library.worded(told, "action_text_id", "action")
        .group_by(_EXPERIENCE, maintain_order=True)
        .agg(lesson=pl.col("action").str.join(THEN))
    )
    named = library.interned(lessons, "lesson")
    summed = rows.group_by(_EXPERIENCE, maintain_order=True).agg(
        *(
            pl.col(name).first()
            for name in ("step", "domain", "task_tool", "skills_min_gain", *_SETTINGS)
        ),
        episodes=pl.col("episode_step").unique().sort(),
        trace_ids=pl.col("trace_id").unique().sort(),
        mean=((pl.col("value") * _MICRO).round().cast(pl.Int64).sum() / _MICRO / pl.len()),
        highest=pl.col("value").max(),
    )
    files = tasks.select("lane_id", "file_names", "query_text_id", last="episode_step")
    gain = (pl.col("mean") - pl.col("induction_prior")).round(6).clip(-1, 1)
    return (
        summed.join(named, on=_EXPERIENCE, how="left")
        .with_columns(last=pl.col("episodes").list.last())
        .join(files, on=["lane_id", "last"], how="left")
        .with_columns(gain=gain)
        .select(
            *_EXPERIENCE,
            updated_step="step",
            created_step="step",
            experience_type=pl.lit("success_pattern", pl.Enum(EXPERIENCE_TYPES)),
            evidence_polarity=pl.lit("positive", pl.Enum(EVIDENCE_POLARITIES)),
            skill_eligible=pl.lit(True),
            status=pl.when(pl.col("gain") >= pl.col("skills_min_gain"))
            .then(pl.lit("active"))
            .otherwise(pl.lit("candidate"))
            .cast(pl.Enum(LIFECYCLE_STATUSES)),
            source=pl.lit("induction", pl.Enum(EXPERIENCE_SOURCES)),
            directive_sign=pl.lit("do", pl.Enum(DIRECTIVE_SIGNS)),
            lesson_text_id="lesson_text_id",
            context_text_id="query_text_id",
            support=pl.col("episodes").list.len().cast(pl.Int32),
            gain="gain",
            salience=pl.col("highest").clip(0, 1),
            confidence=pl.col("mean").clip(0, 1),
            validations=pl.lit(0, pl.Int32),
            observational_validations=pl.lit(0, pl.Int32),
            contradictions=pl.lit(0, pl.Int32),
            check_kind=pl.lit(None, Policies.columns()["check_kind"].dtype),
            check_key=pl.lit(None, pl.String),
            field=pl.lit(None, pl.String),
            domain="domain",
            tool="task_tool",
            file_names=pl.col("file_names").fill_null([]),
            source_feedback_ids=pl.lit([], pl.List(pl.Int64)),
            source_trace_ids="trace_ids",
            source_episode_ids="episodes",
            verifier_meta=pl.lit(None, Policies.columns()["verifier_meta"].dtype),
        )
        .select(UNWORDED)
    )


def induced_lines(induced: pl.LazyFrame) -> dy.LazyFrame[Guidance]:
    """What an induced experience advises: its lesson."""
    return Guidance.cast(
        induced.select(
            *_EXPERIENCE,
            kind=pl.lit("prefer", pl.Enum(GUIDANCE_KINDS)),
            text_id="lesson_text_id",
            step="created_step",
            feedback_id=pl.lit(None, pl.Int64),
        ).sort(_EXPERIENCE)
    )
