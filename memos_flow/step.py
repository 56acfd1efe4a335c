"""One step of every lane: recall, trial, feedback, learning, in the order of section 4.9."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, overload

import dataframely as dy
import polars as pl

from memos_flow.cognition import cognition
from memos_flow.controls import controlled, without_own
from memos_flow.drafts import drafts, typed
from memos_flow.feedback import heard
from memos_flow.induction import (
    associated,
    eligible_traces,
    induced,
    induced_lines,
    pooled,
    regained,
)
from memos_flow.injection import injected, lines, marked, packets, within_budget
from memos_flow.lessons import lessons
from memos_flow.library import Library
from memos_flow.memory import Memory
from memos_flow.merging import UNWORDED, assigned, current_lines, merged, new_lines
from memos_flow.promises import opportunities
from memos_flow.recall import Known, recalled
from memos_flow.rendering import rendered
from memos_flow.repair import contexts, repair_lines, repairs
from memos_flow.reward import episodes, rescored, valued_traces
from memos_flow.schemas import (
    Checks,
    Executions,
    Guidance,
    Lessons,
    Packets,
    Policies,
    Trajectories,
    Trials,
)
from memos_flow.shortlist import Shortlist
from memos_flow.skills import built, decided, eligibility, members, supplements, used
from memos_flow.validation import validated, validations
from memos_flow.verdict import failures, verdicts
from memos_flow.wording import Wording


@dataclass(frozen=True)
class World:
    """What happened outside the memory in this step."""

    #: One row per lane that had a task, and what those trials refer to.
    trials: dy.DataFrame[Trials]
    executions: dy.DataFrame[Executions]
    checks: dy.DataFrame[Checks]
    trajectories: dy.DataFrame[Trajectories]
    #: What people said now: see `feedback.heard`.
    remarks: pl.DataFrame


#: Runs the tasks of `starts` with the packets given.
RunTrials = Callable[[pl.DataFrame, dy.DataFrame[Packets]], World]

S = TypeVar("S", bound=dy.Schema)

_EXPERIENCE = ["lane_id", "policy_id"]
_TRACE = ["lane_id", "trace_id"]


def take_step(
    known: Memory,
    starts: pl.DataFrame,
    itinerary: pl.DataFrame,
    settings: pl.DataFrame,
    controls: pl.DataFrame,
    library: Library,
    wording: Wording,
    shortlist: Shortlist,
    run_trials: RunTrials,
) -> dict[str, pl.DataFrame]:
    """All rows that the step adds, by table.

    `itinerary`: every task of every lane: `lane_id`, `step`, `family`, `task`, `query_text_id`,
    `file_names`, `domain`, `tool`; `starts`: its rows of this step. `settings`: a row per lane, its
    variant's columns, `observational` and `packet_source_lane_id`. `controls`: the lines of
    `controls.controlled`. `shortlist`: of very large lanes, what is near. No lane reads another's
    rows, but for a control's declared source.
    """
    rules, asks = settings.lazy(), starts.lazy()
    policies_before, guidance_before = known.policies.lazy(), known.guidance.lazy()

    # Recall
    skills_before = known.skills.lazy()
    queries = asks.join(rules, on="lane_id").select(
        "lane_id", "step", text_id="query_text_id", weight="recall_context_weight"
    )
    offer = Known(
        Policies.cast(shortlist.for_recall(policies_before, queries)),
        skills_before,
        known.traces.lazy(),
        known.trajectories.lazy(),
        known.world_models.lazy(),
        every_policy=policies_before,
    )
    candidates = _now(recalled(offer, asks, rules, library))
    picked = candidates.lazy().filter(
        pl.col("channel") == "experience", pl.col("fate") == "injected"
    )
    remembered = _now(current_lines(_of(guidance_before, picked, "item_id"), rules)).lazy()
    offered = _now(
        within_budget(lines(candidates.lazy(), remembered, skills_before, library, wording), rules)
    )
    own = _now(packets(offered.lazy(), asks, library)).lazy()
    chosen = controlled(own, controls.lazy(), asks, rules, library)
    packet = _now(marked(chosen, shortlist.approximate()))
    packet_items = _now(without_own(injected(candidates.lazy(), offered.lazy()), rules))

    # Trial
    world = run_trials(starts, packet)
    trials, executions = world.trials.lazy(), world.executions.lazy()
    checks = world.checks.lazy()
    # Late feedback re-scores closed episodes, so earlier trials and trajectories are at hand too.
    all_trials = Trials.cast(pl.concat([known.trials.lazy(), trials]))
    trajectories = Trajectories.cast(
        pl.concat([known.trajectories.lazy(), world.trajectories.lazy()]).unique(
            ["execution_id", "position"]
        )
    )

    # Verdict, feedback, reward
    failing = _now(failures(executions, checks)).lazy()
    verdict = _now(verdicts(trials, executions, failing, rules)).lazy()
    feedback = _now(
        heard(verdict, world.remarks.lazy(), known.feedback.lazy(), rules, library)
    ).lazy()
    episode = _now(episodes(feedback, known.feedback.lazy(), trials)).lazy()
    longest = _now(trajectories.select(pl.col("position").max())).item()
    traces = _now(
        valued_traces(episode, all_trials, trajectories, rules, (longest or 0) + 1)
    ).lazy()

    late = _now(rescored(policies_before, episode, known.episodes.lazy())).lazy()
    standing = Policies.cast(
        pl.concat([policies_before.join(late, on=_EXPERIENCE, how="anti"), late])
    )

    # Lessons and drafts
    learned = _now(
        typed(lessons(feedback, episode, failing, trajectories, rules, library, wording))
    ).lazy()
    spoken_of = itinerary.lazy().rename({"step": "episode_step"})
    drafted = _now(drafts(learned, spoken_of, rules)).lazy()

    # Validation comes before merging
    confirmed = _now(
        validations(
            standing,
            drafted,
            trials,
            checks,
            packet_items.lazy(),
            skills_before,
            rules,
            library,
        )
    ).lazy()
    rewards = episode.select("lane_id", "r_task", step="episode_step").join(
        trials.select("lane_id", "step"), on=["lane_id", "step"], how="semi"
    )
    repaired = _now(validated(standing, confirmed, rewards, rules)).lazy()

    revised = pl.concat([repaired, late.join(repaired, on=_EXPERIENCE, how="anti")])

    # Merge
    alike = shortlist.for_matching(standing, drafted)
    effects = assigned(drafted, alike, confirmed, rules, library).lazy()
    changed = _now(merged(drafted, effects, standing, revised, rules)).lazy()
    guidance = _now(new_lines(drafted, effects, guidance_before, rules, library)).lazy()
    merged_now = pl.concat(
        [standing.select(UNWORDED).join(changed, on=_EXPERIENCE, how="anti"), changed]
    )

    # Decision repair
    all_traces = pl.concat([known.traces.lazy().join(traces, on=_TRACE, how="anti"), traces])
    in_context = _now(contexts(all_traces, trajectories, spoken_of)).lazy()
    mended = _now(
        repairs(feedback, trials, trajectories, in_context, known.repairs.lazy(), merged_now, rules)
    ).lazy()
    mending = _now(repair_lines(mended, pl.concat([guidance_before, guidance]))).lazy()

    # Induction
    valued = _now(eligible_traces(all_traces, trajectories, spoken_of, rules)).lazy()
    fresh = valued.join(
        starts.lazy().select("lane_id", episode_step="step"),
        on=["lane_id", "episode_step"],
        how="semi",
    )
    pooled_before = known.candidate_pool.lazy()
    repeats = _now(associated(fresh, merged_now, pooled_before, library)).lazy()
    pool = _now(pooled(fresh, repeats, pooled_before, asks)).lazy()
    found = _now(induced(pool, valued, spoken_of, library)).lazy()
    moved = _now(regained(merged_now, repeats, valued, asks)).lazy()

    # What changed, put into words
    spoken = merged_now.join(mending, on=_EXPERIENCE, how="semi").join(
        starts.lazy().select("lane_id", now="step"), on="lane_id"
    )
    touched = spoken.with_columns(updated_step="now").select(UNWORDED)
    newest = pl.concat([changed, found])
    for rows in (touched, moved):
        newest = pl.concat([newest.join(rows, on=_EXPERIENCE, how="anti"), rows])
    newest = _now(newest).lazy()
    guidance = Guidance.cast(_now(pl.concat([guidance, mending, induced_lines(found)])).lazy())
    all_lines = _of(pl.concat([guidance_before, guidance]), newest, "policy_id")
    policies = _now(
        Policies.cast(rendered(newest, current_lines(all_lines, rules), library, wording))
    ).lazy()

    # Skills
    standing_now = Policies.cast(
        pl.concat([standing.join(policies, on=_EXPERIENCE, how="anti"), policies])
    )
    judged = _now(decided(standing_now, rules)).lazy()
    tried = _now(used(skills_before, packet_items.lazy(), trials, rules)).lazy()
    placed = members(judged, tried, library).lazy()
    helping = _now(supplements(judged, placed, tried, library)).lazy()
    told = pl.concat([frame.select(_EXPERIENCE) for frame in (placed, helping)])
    lines_now = _now(
        current_lines(_of(pl.concat([guidance_before, guidance]), told, "policy_id"), rules)
    ).lazy()
    skills = _now(
        built(
            judged,
            placed,
            helping,
            confirmed,
            skills_before,
            tried,
            lines_now,
            asks,
            library,
            wording,
        )
    ).lazy()
    decisions = _now(eligibility(judged, placed, skills, known.eligibility.lazy(), asks))

    # Environment cognition
    models = _now(
        cognition(standing_now, policies, known.world_models.lazy(), asks, rules, library, wording)
    )
    return {
        "packet_items": packet_items,
        "packets": packet,
        "trials": world.trials,
        "executions": world.executions,
        "checks": world.checks,
        "trajectories": world.trajectories,
        "episodes": _now(episode),
        "feedback": _now(feedback),
        "traces": _now(traces),
        "lessons": _now(_with_effects(learned, effects)),
        "policies": _now(policies),
        "guidance": _now(guidance),
        "repairs": _now(mended),
        "candidate_pool": _now(pool),
        "eligibility": decisions,
        "skills": _now(skills),
        "world_models": models,
        "opportunities": _now(
            opportunities(
                trials,
                feedback,
                learned,
                policies,
                policies_before,
                failing,
                packet_items.lazy(),
                rules,
            )
        ),
    }


@overload
def _now(frame: dy.LazyFrame[S]) -> dy.DataFrame[S]: ...
@overload
def _now(frame: pl.LazyFrame) -> pl.DataFrame: ...
def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    """Collected by the engine whose joins and sums do not depend on the number of threads."""
    return frame.collect(engine="in-memory")


def _of(guidance: pl.LazyFrame, experiences: pl.LazyFrame, name: str) -> dy.LazyFrame[Guidance]:
    """The lines of the experiences whose ids are in the column `name`."""
    ids = experiences.select("lane_id", policy_id=name)
    return Guidance.cast(guidance.join(ids, on=_EXPERIENCE, how="semi"))


def _with_effects(learned: pl.LazyFrame, effects: pl.LazyFrame) -> dy.LazyFrame[Lessons]:
    return Lessons.cast(
        learned.join(effects, on=["lane_id", "lesson_id"], how="left", maintain_order="left")
    )
