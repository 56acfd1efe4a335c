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
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polars as pl
from omegaconf import DictConfig

import memos_flow.step
from harness.ablation import ablated
from harness.configuration import compose_config, variants_frame
from harness.loop import Plan, run
from harness.progress import progress
from harness.recording import Recording
from harness.replay import Replay
from harness.resources import DATASETS
from harness.runs import execute, mind_of
from harness.sources import Source, load_source
from harness.store import Store
from memos_flow.schemas import Checks, Executions, Trajectories
from memos_flow.texts import texts_frame

_PACKAGES: Final = ("polars", "lancedb", "pyarrow", "numpy", "wordllama")
_ARM: Final = "recorded"
_FAULT: Final = ["family", "task", "fault"]
#: `quick=true` measures this share of everything.
_QUICK: Final = 10
_SAMPLED_EVERY: Final = 0.005
#: What ru_maxrss counts in, in mebibytes.
_RSS_UNIT: Final = 1 / 2**20 if sys.platform == "darwin" else 1 / 2**10


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
    for measure in progress(_MEASURES, total=len(_MEASURES), description="measures"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            found, told = alone.submit(measure, sizes).result()
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


def _lanes(sizes: Sizes) -> Found:
    """Many settings over recorded outcomes, all stages, persisted; and half as many."""
    with _folder() as folder:
        recording = _recorded(folder)
        half, _, _ = _replayed(recording, _drawn(sizes.lanes // 2), str(folder / "half"))
        variants = _drawn(sizes.lanes)
        seconds, stages, store = _replayed(recording, variants, str(folder / "whole"))
        trials = store.read("trials").height
    lanes = f"{variants.height:,} lanes x {trials // variants.height} steps"
    return [
        Figure(f"{lanes}", trials / seconds, "trials/s", 50_000, at_least=True),
        Figure(f"{lanes}: peak memory", _peak(), "MiB", 4096),
        Figure("time for all lanes / for half of them", seconds / half, "ratio", 2.1),
    ], stages


def _one_lane(sizes: Sizes) -> Found:
    """The steps of one lane alone."""
    with _folder() as folder:
        recording = _recorded(folder)
        # Once before it counts: libraries load what they need at first use.
        _timed_steps(recording, str(folder / "first"))
        steps, commits = _timed_steps(recording, str(folder / "second"))
    return [
        Figure("one lane, one step: all stages", 1000 * statistics.median(steps), "ms", 30),
        Figure("one lane, one step: commit", 1000 * statistics.median(commits), "ms", 35),
    ], {}


def _folders(sizes: Sizes) -> Found:
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


def _gate(sizes: Sizes) -> Found:
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


_MEASURES: Final[list[Callable[[Sizes], Found]]] = [_lanes, _one_lane, _folders, _gate]


# What they are made of.


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memos-flow-bench-") as name:
        yield Path(name)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def _drawn(lanes: int) -> pl.DataFrame:
    """As many settings, of the axes of ablation=bench; those drawn twice count once."""
    return ablated(compose_config(["ablation=bench", f"samples={lanes}"]))[0]


def _recorded(folder: Path) -> Recording:
    """The trials of the scripted agent without memory, one per task of a family, as a recording,
    with what people said of them."""
    config = compose_config(["family=sec13f", "memory=[off]"])
    source = load_source(config)
    store = Store.open(str(folder / "recorded"))
    run(
        Plan(source, variants_frame(config), 1, "family", "sequential", False),
        mind_of(config),
        store,
    )
    simulated, executions = source.recording, store.read("executions")
    shown = store.read("shown_faults").join(
        executions.select("execution_id", "family", "task"), on="execution_id"
    )
    heard = simulated.feedback.join(shown, on=_FAULT, how="semi", maintain_order="left")
    always = simulated.feedback.filter(pl.col("fault").is_null())
    arms = simulated.arms.with_columns(
        arm_id=pl.lit(_ARM), simulated=pl.lit(False), observational=pl.lit(True)
    )
    return replace(
        simulated,
        arms=arms,
        executions=Executions.validate(executions.with_columns(arm_id=pl.lit(_ARM)), cast=True),
        checks=Checks.validate(store.read("checks")),
        trajectories=Trajectories.validate(store.read("trajectories")),
        texts=pl.concat([simulated.texts, store.read("texts")]).unique("text_id"),
        feedback=pl.concat([always, heard.with_columns(fault=pl.lit(None, pl.String))]),
    )


def _plan(recording: Recording, variants: pl.DataFrame) -> Plan:
    source = Source(recording, lambda lanes, itinerary, mind: Replay(recording, lanes, itinerary))
    return Plan(source, variants, 1, "family", "sequential", False)


def _replayed(
    recording: Recording, variants: pl.DataFrame, uri: str
) -> tuple[float, dict[str, float], Store]:
    """Seconds of the run, by stage too, and its store."""
    mind, store = mind_of(compose_config([])), Store.open(uri)
    with _sampled() as stages:
        seconds = run(_plan(recording, variants), mind, store)
    samples = sum(stages.values()) or 1
    return seconds, {name: seconds * n / samples for name, n in stages.items()}, store


def _timed_steps(recording: Recording, uri: str) -> tuple[list[float], list[float]]:
    """Seconds of every step's stages and of its commit, of one lane with the default settings."""
    config = compose_config([])
    plan = _plan(recording, variants_frame(config))
    began: list[float] = []
    ended: list[float] = []
    mind = mind_of(config)

    class Timed(Store):
        def commit(self, *arguments: Any, **names: Any) -> None:
            began.append(time.perf_counter())
            super().commit(*arguments, **names)
            ended.append(time.perf_counter())

    run(plan, mind, Timed.open(uri))
    # A step begins where the commit before it ended.
    steps = [start - before for start, before in zip(began[1:], ended, strict=False)]
    return steps, [end - start for start, end in zip(began[1:], ended[1:], strict=True)]


@contextmanager
def _sampled() -> Iterator[Counter[str]]:
    """Where this thread is, looked at many times: the stage of `take_step`, by the comment above
    the line, or what the harness does."""
    counts: Counter[str] = Counter()
    watched, done = threading.get_ident(), threading.Event()
    stages = _stages_by_line()

    def look() -> None:
        while not done.wait(_SAMPLED_EVERY):
            frame = sys._current_frames().get(watched)
            place = "run loop"
            while frame is not None:
                if frame.f_code is memos_flow.step.take_step.__code__:
                    place = stages[frame.f_lineno]
                elif frame.f_code is Store.commit.__code__:
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
    source = Path(memos_flow.step.__file__).read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), start=1):
        if line.startswith("    # ") and not line.rstrip().endswith("."):
            stage = line.removeprefix("    # ")
        stages[number] = stage
    return stages
