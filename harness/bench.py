"""The benchmark of speed and size: what a run costs, measured on this machine in one go.

Each measure runs in a process of its own, so that its peak memory is its own.
"""

import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from omegaconf import DictConfig

from harness.bench_data import GROWN_STEP, drawn, plan_of, recorded, with_many
from harness.configuration import compose_config, variants_frame
from harness.loop import Plan, remembered, run, settings_of
from harness.neighbours import Neighbours
from harness.progress import progress
from harness.recording import Recording
from harness.resources import DATASETS
from harness.runs import execute, mind_of
from harness.store import Store
from memos_flow import step
from memos_flow.recall import Known, recalled
from memos_flow.schemas import Policies
from memos_flow.texts import texts_frame

_PACKAGES: Final = ("polars", "lancedb", "pyarrow", "numpy", "wordllama")
#: `quick=true` measures this share of everything.
_QUICK: Final = 10
#: A lane that knows much knows this share of what one that knows very much does.
_MUCH: Final = 100
_QUERIES: Final = 40
_SAMPLED_EVERY: Final = 0.005
#: The functions of a step, whose comments name its stages.
_PARTS: Final = ("take_step", "_recall", "_hear", "_learn", "_practise", "_understand")
#: What ru_maxrss counts in, in mebibytes.
_RSS_UNIT: Final = 1 / 2**20 if sys.platform == "darwin" else 1 / 2**10


_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Figure:
    """One line of the benchmark."""

    measure: str
    value: float
    unit: str
    #: At most, or at least where more is better; None where the figure has no goal of its own.
    goal: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


@dataclass(frozen=True)
class Sizes:
    """How much of everything is measured."""

    lanes: int
    folders: int
    texts: int
    experiences: int


#: What a measure finds: its figures, and seconds by stage where it looked at those.
Found = tuple[list[Figure], dict[str, float]]


def bench(config: DictConfig) -> dict[str, Any]:
    """Every figure with its goal, the seconds by stage of the run of many lanes, the machine and
    the versions."""
    share = _QUICK if config.quick else 1
    sizes = Sizes(**{str(name): int(size) // share for name, size in config.bench.items()})
    figures: list[Figure] = []
    stages: dict[str, float] = {}
    with _folder() as folder:
        recording = _alone(recorded, folder)
    for measure in progress(_MEASURES, total=len(_MEASURES), description="measures"):
        found, told = _alone(measure, recording, sizes)
        figures += found
        stages |= told
    return {
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "versions": {name: version(name) for name in _PACKAGES},
        "sizes": vars(sizes),
        "figures": [{**vars(figure), "met": figure.met} for figure in figures],
        "stages": {name: round(seconds, 2) for name, seconds in stages.items()},
    }


def as_frames(data: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The figures and the shares of the stages, as tables."""
    figures = pl.DataFrame(
        [
            {
                "measure": row["measure"],
                "figure": f"{row['value']:,.3g}" if row["value"] < 100 else f"{row['value']:,.0f}",
                "unit": row["unit"],
                "goal": None
                if row["goal"] is None
                else f"{'≥' if row['at_least'] else '≤'} {row['goal']:,g}",
                "met": {True: "yes", False: "no", None: None}[row["met"]],
            }
            for row in data["figures"]
        ],
        schema=dict.fromkeys(["measure", "figure", "unit", "goal", "met"], pl.String),
    )
    total = sum(data["stages"].values()) or 1
    stages = pl.DataFrame(
        {
            "stage": list(data["stages"]),
            "seconds": list(data["stages"].values()),
            "share": [round(seconds / total, 3) for seconds in data["stages"].values()],
        }
    ).sort("seconds", "stage", descending=[True, False])
    return figures, stages


# Measures.


def _lanes(recording: Recording, sizes: Sizes) -> Found:
    """Many settings over recorded outcomes, all stages, persisted; and half as many."""
    with _folder() as folder:
        half, _, _ = _replayed(recording, drawn(sizes.lanes // 2), str(folder / "half"))
        variants = drawn(sizes.lanes)
        seconds, stages, store = _replayed(recording, variants, str(folder / "whole"))
        trials = store.read("trials").height
    lanes = f"{variants.height:,} lanes x {trials // variants.height} steps"
    return [
        Figure(f"{lanes}", trials / seconds, "trials/s", 50_000, at_least=True),
        Figure(f"{lanes}: peak memory", _peak(), "MiB", 4096),
        Figure("time for all lanes / for half of them", seconds / half, "ratio", 2.1),
    ], stages


def _one_lane(recording: Recording, sizes: Sizes) -> Found:
    """The steps of one lane alone."""
    with _folder() as folder:
        plan = plan_of(recording, variants_frame(compose_config([])), folder / "indexes")
        # Once before it counts: libraries load what they need at first use.
        _timed(plan, str(folder / "first"))
        steps, commits = _timed(plan, str(folder / "second"))
        many = sizes.experiences // _MUCH
        with_many(recording, str(folder / "many"), many)
        loaded, _ = _timed(plan, str(folder / "many"))
    alone = statistics.median(steps)
    slower = statistics.median(loaded) / alone
    return [
        Figure("one lane, one step: all stages", 1000 * alone, "ms", 30),
        Figure("one lane, one step: commit", 1000 * statistics.median(commits), "ms", 35),
        Figure(f"one lane, one step: with {many:,} experiences / with few", slower, "ratio", 2),
    ], {}


def _folders(_: Recording, sizes: Sizes) -> Found:
    """Recorded Harbor folders, from folder to report."""
    with _folder() as folder:
        trials = DATASETS / "demo" / "trials"
        copies = max(1, sizes.folders // sum(1 for _ in trials.glob("*/*/*")))
        for number in range(copies):
            shutil.copytree(trials, folder / "trials" / f"setting_{number:04}")
        config = compose_config(
            [
                "trials=harbor",
                f"trials.root={folder / 'trials'}",
                f"tasks.root={DATASETS / 'demo' / 'tasks'}",
                f"output={folder / 'run'}",
            ]
        )
        started = time.perf_counter()
        planned = execute(config)["trials"].height
        seconds = time.perf_counter() - started
    return [
        Figure(f"{planned:,} recorded folders, import to report", seconds, "s", 40),
        Figure("recorded folders: peak memory", _peak(), "MiB"),
    ], {}


def _gate(_: Recording, sizes: Sizes) -> Found:
    """Short texts classified and split into lessons; and one long text, for its growth."""
    library = mind_of(compose_config([])).library
    said = [
        text
        for family in ("sec13f", "incidents")
        for text in pl.read_ndjson(DATASETS / family / "feedback.jsonl")["text"]
    ]
    short = [f"{said[number % len(said)]} ({number})" for number in range(sizes.texts)]

    def seconds(texts: list[str]) -> float:
        frame = texts_frame(texts)
        library.add(frame)
        started = time.perf_counter()
        library.clauses(frame.lazy().select("text_id"))
        return time.perf_counter() - started

    seconds(["warm"])
    many = seconds(short)
    line = "Next time, parse every record before aggregating. "
    half, whole = (seconds([line * (2**size // len(line))]) for size in (19, 20))
    return [
        Figure("gate: classify and split", len(short) / many, "texts/s", 150_000, at_least=True),
        Figure("gate: a text of 1 MiB", whole, "s"),
        Figure("gate: a text of 1 MiB / of half of it", whole / half, "ratio", 2.5),
    ], {}


def _large_memory(recording: Recording, sizes: Sizes) -> Found:
    """One lane that knows very much, read from a run folder: recall, then its other steps."""
    with _folder() as folder:
        plan = plan_of(recording, variants_frame(compose_config([])), folder / "indexes")
        uri = str(folder / "large")
        _alone(with_many, recording, uri, sizes.experiences)
        figures = _alone(_recalls, recording, uri, sizes.experiences)
        steps, _ = _timed(plan, uri)
    known = f"{sizes.experiences:,} experiences"
    return [
        *figures,
        Figure(f"one lane, one step with {known}", statistics.median(steps), "s"),
        Figure(f"{known}, a run resumed from its folder: peak memory", _peak(), "MiB", 8192),
    ], {}


def _recalls(recording: Recording, uri: str, experiences: int) -> list[Figure]:
    """Recall alone, and the share of the ten most similar that the index finds."""
    library = mind_of(compose_config([])).library
    library.add(recording.texts)
    indexes = Path(uri) / "beside"
    plan = plan_of(recording, variants_frame(compose_config([])), indexes)
    lanes = plan.lanes()
    memory = remembered(Store.open(uri), library, 0, lanes["lane_id"])
    rules = settings_of(lanes, plan.variants, plan.source.recording.arms).lazy()
    policies, lane = memory.learned.policies, lanes["lane_id"][0]
    near = Neighbours(library, indexes, experiences // 2)
    vectors = library.vectors(policies["text_id"])
    seconds, found = [], 0
    for row in np.linspace(0, policies.height - 1, _QUERIES, dtype=np.int64).tolist():
        # What an experience says, asked for in other words: the experience and one far from it.
        text_id, step = policies["text_id"][row], GROWN_STEP + 1
        starts = pl.LazyFrame(
            {"lane_id": [lane], "step": [step], "query_text_id": [text_id]},
            schema={"lane_id": pl.Int64, "step": pl.Int32, "query_text_id": pl.Int64},
        )
        asked = starts.rename({"query_text_id": "text_id"}).with_columns(weight=pl.lit(0.0))
        began = time.perf_counter()
        listed = Policies.cast(near.for_recall(policies.lazy(), asked))
        offer = Known(
            listed,
            memory.practised.skills.lazy(),
            memory.heard.traces.lazy(),
            memory.trajectories.lazy(),
            memory.understood.world_models.lazy(),
            every_policy=policies.lazy(),
        )
        recalled(offer, starts, rules, library).collect(engine="in-memory")
        seconds.append(time.perf_counter() - began)
        exact = np.argpartition(-(vectors @ vectors[row]), 10)[:10]
        ids = policies["policy_id"].gather(exact)
        found += len(set(ids) & set(listed.collect()["policy_id"]))
    known = f"{experiences:,} experiences"
    return [
        # The first one builds the index.
        Figure(f"recall from {known}", 1000 * statistics.median(seconds[1:]), "ms", 15),
        Figure("recall@10 of its index against exact", found / (10 * _QUERIES), "", 0.95, True),
        Figure(f"recall from {known}: peak memory", _peak(), "MiB", 8192),
    ]


_MEASURES: Final[list[Callable[[Recording, Sizes], Found]]] = [
    _lanes,
    _one_lane,
    _folders,
    _gate,
    _large_memory,
]


# What they are made of.


def _alone(work: Callable[..., _Result], *arguments: Any) -> _Result:
    """Done in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memos-flow-bench-") as name:
        yield Path(name)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def _replayed(
    recording: Recording, variants: pl.DataFrame, uri: str
) -> tuple[float, dict[str, float], Store]:
    """Seconds of the run, by stage too, and its store."""
    mind, store = mind_of(compose_config([])), Store.open(uri)
    with _sampled() as stages:
        seconds = run(plan_of(recording, variants, Path(uri) / "indexes"), mind, store)
    samples = sum(stages.values()) or 1
    return seconds, {name: seconds * n / samples for name, n in stages.items()}, store


def _timed(plan: Plan, uri: str) -> tuple[list[float], list[float]]:
    """Seconds of every step's stages and of its commit, of what is left of the run."""
    began: list[float] = []
    ended: list[float] = []

    class Timed(Store):
        def commit(self, *arguments: Any, **names: Any) -> None:
            began.append(time.perf_counter())
            super().commit(*arguments, **names)
            ended.append(time.perf_counter())

    run(plan, mind_of(compose_config([])), Timed.open(uri))
    # A step begins where the commit before it ended; the first of all is not counted.
    steps = [start - before for start, before in zip(began[1:], ended, strict=False)]
    return steps, [end - start for start, end in zip(began[1:], ended[1:], strict=True)]


@contextmanager
def _sampled() -> Iterator[Counter[str]]:
    """Where this thread is, looked at many times: the stage of the step, by the comment above the
    line, or what the harness does."""
    counts: Counter[str] = Counter()
    watched, done = threading.get_ident(), threading.Event()
    stages = _stages_by_line()
    parts = {part.__code__ for name, part in vars(step).items() if name in _PARTS}

    def look() -> None:
        while not done.wait(_SAMPLED_EVERY):
            frame = sys._current_frames().get(watched)
            place = "run loop"
            while frame is not None:
                if frame.f_code in parts:
                    place = stages[frame.f_lineno]
                    break
                if frame.f_code is Store.commit.__code__:
                    place = "commit"
                frame = frame.f_back
            counts[place] += 1

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        done.set()
        thread.join()


def _stages_by_line() -> dict[int, str]:
    """Each line of the step's file with the last one-line comment of that indentation."""
    stages, stage = {}, "step"
    source = Path(step.__file__).read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), start=1):
        if line.startswith("    # ") and not line.rstrip().endswith("."):
            stage = line.removeprefix("    # ")
        stages[number] = stage
    return stages
