"""The run loop: every lane takes its next task, and each step is committed before the next."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from harness.controls import control_lines
from harness.errors import ConfigurationError, InputError, StoreError
from harness.neighbours import Neighbours
from harness.plan import itinerary_of, lanes_of
from harness.progress import progress
from harness.recording import Recording
from harness.shards import of_shard
from harness.sources import Mind, Source
from harness.store import Store
from memos_flow.domains import Terms, tagged
from memos_flow.library import Library
from memos_flow.memory import Memory
from memos_flow.step import take_step

#: The commit of the set-up tables, before the first step.
SETUP_STEP = -1


@dataclass(frozen=True)
class Plan:
    """What a run consists of, before any of it happens."""

    source: Source
    variants: pl.DataFrame
    seeds: int
    scope: str
    order: str
    strict: bool
    shards: int = 1
    #: Where indexes of very large lanes are written.
    indexes: Path = Path("indexes")

    def lanes(self) -> pl.DataFrame:
        """Schema Lanes. Raises ConfigurationError for a control that these trials cannot have."""
        recording = self.source.recording
        oracles = self.variants.filter(pl.col("recall_packet") == "oracle")
        if not oracles.is_empty() and recording.fault_matrix.is_empty():
            raise ConfigurationError(
                f"memory.{oracles['variant_id'][0]}: what is relevant for recorded trials is not "
                "known; expected simulated families, which have a fault matrix"
            )
        families = recording.tasks["family"].unique().sort().to_list()
        return lanes_of(self.variants, recording.arms, families, self.seeds, self.scope)

    def unfinished(self, store: Store) -> dict[int, int]:
        """The shards that have steps to do, and how many."""
        lanes = self.lanes()
        left = {}
        for shard in range(self.shards):
            own = of_shard(lanes, shard, self.shards)
            steps = set(itinerary_of(own, self.source.recording.tasks, self.order)["step"])
            missing = {SETUP_STEP, *steps} - set(store.committed_steps(shard))
            if missing:
                left[shard] = len(missing)
        return left


def run(plan: Plan, mind: Mind, store: Store, shard: int = 0) -> float:
    """Run all steps of a shard that are not committed yet; returns the seconds it took.

    A step that was committed is never executed again; rows of killed attempts are removed first.
    Raises InputError for a boundary phrase in feedback where `checks.strict` says so.
    """
    started = time.perf_counter()
    recording = plan.source.recording
    library = mind.library
    library.add(recording.texts)
    library.foresee(recording.feedback.lazy().select("text_id"))
    tasks = _tagged(recording, library, mind.domains)
    every_lane = plan.lanes()
    lanes = of_shard(every_lane, shard, plan.shards)
    itinerary = itinerary_of(lanes, tasks, plan.order)
    settings = settings_of(lanes, plan.variants, recording.arms)

    store.sweep(shard)
    done = store.committed_steps(shard)
    if SETUP_STEP not in done:
        setup = {
            "arms": recording.arms,
            "tasks": tasks,
            "variants": plan.variants,
            "lanes": every_lane,
            "fault_matrix": recording.fault_matrix,
            "remark_faults": recording.remark_faults,
        }
        store.commit({**setup, **library.drain()}, shard=shard, step=SETUP_STEP, lanes=lanes.height)
    memory = (
        remembered(store, library, shard, lanes["lane_id"])
        if any(step >= 0 for step in done)
        else Memory.empty(lanes["lane_id"])
    )
    controls = control_lines(recording, library)
    trialist = plan.source.trialist(lanes, itinerary, mind)
    heard = memory.heard
    if not heard.trials.is_empty():
        trialist.restore(
            heard.lanes.each(heard.trials), store.read("shown_faults", store.commits(shard))
        )
    shortlist = Neighbours(library, plan.indexes / str(shard))
    steps = sorted(set(itinerary["step"]) - set(done))
    for step in progress(steps, total=len(steps), description="steps"):
        starts = itinerary.filter(pl.col("step") == step)
        taken = take_step(
            memory,
            starts,
            itinerary,
            settings,
            controls,
            library,
            mind.wording,
            shortlist,
            trialist,
        )
        tables = taken.tables()
        if plan.strict:
            _check_strictly(tables, library)
        # Committed before anything else happens.
        rows = {
            **tables,
            **library.drain(),
            **trialist.drain(),
            "alike_lanes": taken.alike_lanes(step),
        }
        store.commit(rows, shard=shard, step=step, lanes=starts.height)
        memory = memory.after(taken)
    store.settle()
    return time.perf_counter() - started


def remembered(store: Store, library: Library, shard: int, lane_ids: pl.Series) -> Memory:
    """What the lanes of a shard know by its committed steps; the library takes over their texts."""
    commits = store.commits(shard)
    library.restore(store.read("texts", commits), store.read("embeddings", commits))
    tables = {name: store.read(name, commits) for name in Memory.tables()}
    return Memory.as_of(tables, lane_ids)


def settings_of(lanes: pl.DataFrame, variants: pl.DataFrame, arms: pl.DataFrame) -> pl.DataFrame:
    """One row per lane: its variant's columns and whether its trials are observational."""
    return (
        lanes.select("lane_id", "variant_id", "arm_id", "packet_source_lane_id")
        .join(variants, on="variant_id", how="left")
        .join(arms.select("arm_id", "observational"), on="arm_id", how="left")
        .sort("lane_id")
    )


def _tagged(recording: Recording, library: Library, domains: Mapping[str, Terms]) -> pl.DataFrame:
    """The tasks with the domain and tool that their own text tells."""
    texts = library.texts.join(
        recording.tasks.lazy().select(text_id="query_text_id").unique(), on="text_id", how="semi"
    )
    tags = tagged(texts, domains).collect(engine="in-memory")
    return (
        recording.tasks.drop("domain", "tool")
        .join(
            tags.rename({"text_id": "query_text_id"}),
            on="query_text_id",
            how="left",
            maintain_order="left",
        )
        .select(recording.tasks.columns)
    )


def _check_strictly(tables: Mapping[str, pl.DataFrame], library: Library) -> None:
    """A boundary phrase in feedback, or a step that did not keep C1 or C2, stops a strict run."""
    phrases = tables["feedback"].filter(pl.col("quarantine") == "task-boundary-phrase")
    if not phrases.is_empty():
        row = phrases.row(0, named=True)
        text = library.texts.filter(pl.col("text_id") == row["text_id"]).collect()["text"][0]
        raise InputError(
            "feedback",
            "the text holds a task-boundary phrase",
            field=f"lane {row['lane_id']}, step {row['step']}",
            found=text[:80],
            hint="Rephrase it, or set checks.strict=false to quarantine such rows",
        )
    broken = tables["opportunities"].filter(
        pl.col("criterion").is_in(["C1", "C2"]) & (pl.col("met") < pl.col("opportunities"))
    )
    if not broken.is_empty():
        row = broken.row(0, named=True)
        raise StoreError(
            f"lane {row['lane_id']}, step {row['step']}: {row['criterion']} kept for {row['met']} "
            f"of {row['opportunities']} opportunities, and checks.strict is on"
        )
