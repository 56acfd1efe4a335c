"""One step of every lane: recall, trial, feedback, learning, in the order of section 4.9."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar, overload

import dataframely as dy
import polars as pl
from polars import selectors as cs

from memos_flow.alike import Alike
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
from memos_flow.injection import carried, injected, lines, marked, packets, within_budget
from memos_flow.lessons import lessons
from memos_flow.library import Library
from memos_flow.memory import Heard, Learned, Memory, Practised, Step, Understood
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
    Opportunities,
    PacketItems,
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

    def of(self, lanes: Alike, alone: Alike) -> "World":
        """What happened to the lanes that stand in `lanes`."""
        return replace(
            self,
            trials=Trials.cast(lanes.rows(self.trials, alone)),
            remarks=lanes.rows(self.remarks, alone),
        )


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
) -> Step:
    """All rows that the step adds.

    `itinerary`: every task of every lane: `lane_id`, `step`, `family`, `task`, `query_text_id`,
    `file_names`, `domain`, `tool`; `starts`: its rows of this step. `settings`: a row per lane, its
    variant's columns, `observational` and `packet_source_lane_id`. `controls`: the lines of
    `controls.controlled`. `shortlist`: of very large lanes, what is near. No lane reads another's
    rows, but for a control's declared source.

    Each part is done once for all lanes that know the same, meet the same and have the same of the
    settings that the part is given: see `alike`.
    """
    now = starts.select("lane_id", "step")
    alone = Alike.alone(now["lane_id"])
    here = settings.join(now, on="lane_id", how="semi", maintain_order="left")

    asks = starts.select("lane_id", "step", "query_text_id")
    rules = here.select("lane_id", _RECALLING)
    asking = Alike.by(asks, rules, *known.lanes())
    packet_items, own, approximate = _recall(
        known.of(asking),
        asking.rows(asks, alone).lazy(),
        asking.rows(rules, alone).lazy(),
        library,
        wording,
        shortlist,
    )
    shown = _now(carried(packet_items.lazy()))

    # Trial
    offered = Packets.cast(asking.each(own).lazy())
    given = controlled(offered, controls.lazy(), starts.lazy(), here.lazy(), library)
    packet = _now(marked(given, asking.each(approximate).lazy()))
    world = run_trials(starts, packet)
    living = alone.equal(world.trials)

    rules = here.select("lane_id", _HEARING)
    hearing = Alike.by(now, rules, living, alone.equal(world.remarks), known.heard.lanes)
    heard, told = _hear(
        known.heard.of(hearing),
        known.trajectories,
        world.of(hearing, alone),
        hearing.rows(rules, alone).lazy(),
        library,
        wording,
    )

    rules = here.select("lane_id", _LEARNING)
    learning = Alike.by(
        now,
        rules,
        living,
        asking.equal(shown),
        hearing.equal(*heard.frames().values(), told),
        known.heard.lanes,
        known.learned.lanes,
        known.practised.lanes,
    )
    learned, lessons, kept, confirmed = _learn(
        known.heard.of(learning),
        known.learned.of(learning),
        known.practised.of(learning),
        known.trajectories,
        world.of(learning, alone),
        heard.of(learning),
        learning.rows(told, hearing).lazy(),
        learning.rows(shown, asking).lazy(),
        learning.rows(now, alone).lazy(),
        learning.rows(_until(now, itinerary), alone).lazy(),
        learning.rows(rules, alone).lazy(),
        library,
        wording,
        shortlist,
    )

    rules = here.select("lane_id", _PRACTISING)
    practising = Alike.by(
        now,
        rules,
        living,
        asking.equal(shown),
        learning.equal(learned.policies, learned.guidance, confirmed),
        known.learned.lanes,
        known.practised.lanes,
    )
    practised = _practise(
        known.learned.of(practising),
        known.practised.of(practising),
        world.of(practising, alone),
        learned.of(practising),
        practising.rows(confirmed, learning).lazy(),
        practising.rows(shown, asking).lazy(),
        practising.rows(now, alone).lazy(),
        practising.rows(rules, alone).lazy(),
        library,
        wording,
    )

    rules = here.select("lane_id", _UNDERSTANDING)
    understanding = Alike.by(
        now, rules, learning.equal(learned.policies), known.learned.lanes, known.understood.lanes
    )
    understood = _understand(
        known.learned.of(understanding),
        known.understood.of(understanding),
        learned.of(understanding),
        understanding.rows(now, alone).lazy(),
        understanding.rows(rules, alone).lazy(),
        library,
        wording,
    )
    return Step(
        content={
            "executions": world.executions,
            "checks": world.checks,
            "trajectories": world.trajectories,
        },
        parts={
            "offering": (alone, {"packets": packet}),
            "recalling": (asking, {"packet_items": packet_items}),
            "hearing": (hearing, heard.frames()),
            "learning": (
                learning,
                {**learned.frames(), "lessons": lessons, "opportunities": kept},
            ),
            "practising": (practising, practised.frames()),
            "understanding": (understanding, understood.frames()),
        },
    )


# The settings that each part reads; it is given no others.
_RECALLING = cs.starts_with("recall_", "clock_", "injection_") | cs.by_name("merge_guidance_lines")
_HEARING = cs.starts_with("verdict_", "feedback_", "gate_", "clock_", "reward_")
_LEARNING = cs.starts_with(
    "draft_", "validation_", "merge_", "repair_", "induction_", "clock_"
) | cs.by_name("observational", "recall_packet", "skills_min_gain")
_PRACTISING = cs.starts_with("skills_") | cs.by_name(
    "validation_observational", "merge_guidance_lines"
)
_UNDERSTANDING = cs.starts_with("cognition_")


def _recall(
    known: Memory,
    asks: pl.LazyFrame,
    rules: pl.LazyFrame,
    library: Library,
    wording: Wording,
    shortlist: Shortlist,
) -> tuple[dy.DataFrame[PacketItems], dy.DataFrame[Packets], pl.DataFrame]:
    """The candidates with their fates, the packet of each lane's own memory, and the lanes
    (`lane_id`) whose candidates an approximate index chose."""
    # Recall
    policies, skills = known.learned.policies.lazy(), known.practised.skills.lazy()
    queries = asks.join(rules, on="lane_id").select(
        "lane_id", "step", text_id="query_text_id", weight="recall_context_weight"
    )
    offer = Known(
        Policies.cast(shortlist.for_recall(policies, queries)),
        skills,
        known.heard.traces.lazy(),
        known.trajectories.lazy(),
        known.understood.world_models.lazy(),
        every_policy=policies,
    )
    candidates = _now(recalled(offer, asks, rules, library)).lazy()
    picked = candidates.filter(pl.col("channel") == "experience", pl.col("fate") == "injected")
    remembered = _now(
        current_lines(_of(known.learned.guidance.lazy(), picked, "item_id"), rules)
    ).lazy()
    offered = _now(
        within_budget(lines(candidates, remembered, skills, library, wording), rules)
    ).lazy()
    return (
        _now(without_own(injected(candidates, offered), rules)),
        _now(packets(offered, asks, library)),
        _now(shortlist.approximate()),
    )


def _hear(
    known: Heard,
    trajectories_before: dy.DataFrame[Trajectories],
    world: World,
    rules: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> tuple[Heard, pl.DataFrame]:
    """What happened and what was said of it; and the lessons told, with their type."""
    # Verdict, feedback, reward
    trials, executions = world.trials.lazy(), world.executions.lazy()
    # Late feedback re-scores closed episodes, so earlier trials and trajectories are at hand too.
    all_trials = Trials.cast(pl.concat([known.trials.lazy(), trials]))
    trajectories = _all_trajectories(trajectories_before, world)
    failing = _now(failures(executions, world.checks.lazy())).lazy()
    verdict = _now(verdicts(trials, executions, failing, rules)).lazy()
    feedback = _now(
        heard(verdict, world.remarks.lazy(), known.feedback.lazy(), rules, library)
    ).lazy()
    episode = _now(episodes(feedback, known.feedback.lazy(), trials)).lazy()
    longest = _now(trajectories.select(pl.col("position").max())).item()
    traces = valued_traces(episode, all_trials, trajectories, rules, (longest or 0) + 1)

    # Lessons
    told = typed(lessons(feedback, episode, failing, trajectories, rules, library, wording))
    return Heard(known.lanes, world.trials, _now(episode), _now(feedback), _now(traces)), _now(told)


def _learn(
    heard_before: Heard,
    known: Learned,
    practised: Practised,
    trajectories_before: dy.DataFrame[Trajectories],
    world: World,
    heard: Heard,
    told: pl.LazyFrame,
    shown: pl.LazyFrame,
    starts: pl.LazyFrame,
    tasks: pl.LazyFrame,
    rules: pl.LazyFrame,
    library: Library,
    wording: Wording,
    shortlist: Shortlist,
) -> tuple[Learned, dy.DataFrame[Lessons], dy.DataFrame[Opportunities], pl.DataFrame]:
    """What the lessons `told` teach; the lessons with their effects; which promises were kept; and
    the validations of this step.

    `heard`: what `_hear` added; `shown`: `lane_id`, `channel`, `item_id` of what the packet held of
    experiences and skills; `tasks`: those so far, which feedback may be about.
    """
    trials, checks = world.trials.lazy(), world.checks.lazy()
    feedback, episode, traces = heard.feedback.lazy(), heard.episodes.lazy(), heard.traces.lazy()
    policies_before = known.policies.lazy()
    guidance_before = known.guidance.lazy()
    trajectories = _all_trajectories(trajectories_before, world)
    spoken_of = tasks.rename({"step": "episode_step"})
    failing = _now(failures(world.executions.lazy(), checks)).lazy()

    # Drafts
    drafted = _now(drafts(told, spoken_of, rules)).lazy()
    late = _now(rescored(policies_before, episode, heard_before.episodes.lazy())).lazy()
    standing = _standing(known, late)

    # Validation comes before merging
    confirmed = _now(
        validations(
            standing,
            drafted,
            trials,
            checks,
            shown,
            practised.skills.lazy(),
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
    all_traces = pl.concat([heard_before.traces.lazy().join(traces, on=_TRACE, how="anti"), traces])
    in_context = _now(contexts(all_traces, trajectories, spoken_of)).lazy()
    mended = _now(
        repairs(
            feedback,
            trials,
            trajectories,
            in_context,
            known.repairs.lazy(),
            merged_now,
            rules,
        )
    ).lazy()
    mending = _now(repair_lines(mended, pl.concat([guidance_before, guidance]))).lazy()

    # Induction
    valued = _now(eligible_traces(all_traces, trajectories, spoken_of, rules)).lazy()
    fresh = valued.join(
        starts.select("lane_id", episode_step="step"),
        on=["lane_id", "episode_step"],
        how="semi",
    )
    pooled_before = known.candidate_pool.lazy()
    repeats = _now(associated(fresh, merged_now, pooled_before, library)).lazy()
    pool = _now(pooled(fresh, repeats, pooled_before, starts)).lazy()
    found = _now(induced(pool, valued, spoken_of, library)).lazy()
    moved = _now(regained(merged_now, repeats, valued, starts)).lazy()

    # What changed, put into words
    spoken = merged_now.join(mending, on=_EXPERIENCE, how="semi").join(
        starts.select("lane_id", now="step"), on="lane_id"
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
    kept = opportunities(trials, feedback, told, policies, policies_before, failing, shown, rules)
    return (
        Learned(known.lanes, _now(policies), _now(guidance), _now(mended), _now(pool)),
        _now(_with_effects(told, effects)),
        _now(kept),
        _now(confirmed),
    )


def _practise(
    known: Learned,
    before: Practised,
    world: World,
    learned: Learned,
    confirmed: pl.LazyFrame,
    shown: pl.LazyFrame,
    starts: pl.LazyFrame,
    rules: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> Practised:
    """The skills that were tried or (re)built, and whether experiences may be in one.

    `learned`, `confirmed`: what `_learn` added.
    """
    # Skills
    skills_before = before.skills.lazy()
    all_lines = pl.concat([known.guidance.lazy(), learned.guidance.lazy()])
    standing = _standing(known, learned.policies.lazy())
    judged = _now(decided(standing, rules)).lazy()
    tried = _now(used(skills_before, shown, world.trials.lazy(), rules)).lazy()
    placed = members(judged, tried, library).lazy()
    helping = _now(supplements(judged, placed, tried, library)).lazy()
    told = pl.concat([frame.select(_EXPERIENCE) for frame in (placed, helping)])
    lines_now = _now(current_lines(_of(all_lines, told, "policy_id"), rules)).lazy()
    skills = _now(
        built(
            judged,
            placed,
            helping,
            confirmed,
            skills_before,
            tried,
            lines_now,
            starts,
            library,
            wording,
        )
    )
    decisions = eligibility(judged, placed, skills.lazy(), before.eligibility.lazy(), starts)
    return Practised(before.lanes, skills, _now(decisions))


def _understand(
    known: Learned,
    before: Understood,
    learned: Learned,
    starts: pl.LazyFrame,
    rules: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> Understood:
    """The environment cognition that changed with its experiences (`learned`)."""
    # Environment cognition
    changed, models = learned.policies.lazy(), before.world_models.lazy()
    standing = _standing(known, changed)
    return Understood(
        before.lanes, _now(cognition(standing, changed, models, starts, rules, library, wording))
    )


def _standing(known: Learned, changed: pl.LazyFrame) -> dy.LazyFrame[Policies]:
    """The experiences with those that changed in their new version."""
    before = known.policies.lazy().join(changed, on=_EXPERIENCE, how="anti")
    return Policies.cast(pl.concat([before, changed]))


def _all_trajectories(
    before: dy.DataFrame[Trajectories], world: World
) -> dy.LazyFrame[Trajectories]:
    return Trajectories.cast(
        pl.concat([before.lazy(), world.trajectories.lazy()]).unique(["execution_id", "position"])
    )


def _until(now: pl.DataFrame, itinerary: pl.DataFrame) -> pl.DataFrame:
    """The tasks so far of the lanes that have one now."""
    so_far = itinerary.join(now, on="lane_id", suffix="_now")
    return so_far.filter(pl.col("step") <= pl.col("step_now")).drop("step_now")


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


def _with_effects(told: pl.LazyFrame, effects: pl.LazyFrame) -> dy.LazyFrame[Lessons]:
    return Lessons.cast(
        told.join(effects, on=["lane_id", "lesson_id"], how="left", maintain_order="left")
    )
