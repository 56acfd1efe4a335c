"""Where trials come from: simulated families, families of the user's, recorded trials."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import polars as pl
from omegaconf import DictConfig, OmegaConf

from harness.configuration import container
from harness.embedders import Embedder
from harness.errors import ConfigurationError
from harness.harbor import load_harbor
from harness.recording import Recording
from harness.replay import Replay
from harness.resources import DATASETS
from harness.scripted import Reader, Traits
from harness.simulation import Simulation, is_simulated, load_simulated
from memos_flow.domains import Terms
from memos_flow.lexicon import Lexicon
from memos_flow.library import Library
from memos_flow.step import World
from memos_flow.wording import Wording


@dataclass(frozen=True)
class Mind:
    """What texts are understood with: by the memory and, each for itself, by a simulated agent."""

    library: Library
    wording: Wording
    domains: Mapping[str, Terms]
    embedder: Embedder
    lexicon: Lexicon


class Trialist(Protocol):
    """Runs, or looks up, the trials of a step."""

    def __call__(self, starts: pl.DataFrame, packets: pl.DataFrame) -> World:
        """The trials of the tasks that start now."""

    def restore(self, trials: pl.DataFrame, shown: pl.DataFrame) -> None:
        """Take over what the committed steps of an earlier run did."""

    def drain(self) -> dict[str, pl.DataFrame]:
        """Tables of its own that came since the last call."""


@dataclass(frozen=True)
class Source:
    """The tasks, arms and recorded trials, and what runs the trials of given lanes."""

    recording: Recording
    trialist: Callable[[pl.DataFrame, pl.DataFrame, Mind], Trialist]


def load_source(config: DictConfig) -> Source:
    """The source that `family`, `trials`, `tasks` and `agent` name.

    Raises ConfigurationError where a root is missing, InputError where a folder is not what it
    should be.
    """
    families = list(config.families) if config.families else None
    if config.trials.source == "harbor":
        if OmegaConf.is_missing(config.trials, "root"):
            raise ConfigurationError("trials.root: missing; name the folder of recorded trials")
        tasks = Path(config.tasks.root) if config.tasks.root else None
        recording = load_harbor(Path(config.trials.root), tasks, families)
        return _recorded(_of_arms(recording, list(config.arms)))
    if config.family.path is not None:
        root = Path(config.family.path)
        if not is_simulated(root):
            raise ConfigurationError(
                f"family.path={root}: no family.py, so the scripted agent cannot run its tasks; "
                "for recorded trials add trials=harbor trials.root=DIR tasks.root=DIR"
            )
        return _simulated(root, families, config)
    embedded = config.family.embedded
    if embedded.trials is not None:
        return _recorded(
            load_harbor(DATASETS / embedded.trials, DATASETS / embedded.tasks, families)
        )
    return _simulated(DATASETS / embedded.tasks, families, config)


def _of_arms(recording: Recording, wanted: list[str]) -> Recording:
    """The recording of the arms named, or of those that begin so; raises ConfigurationError where
    one is not there."""
    if not wanted:
        return recording
    known = recording.arms["arm_id"].to_list()
    for name in wanted:
        if not any(arm == name or arm.startswith(f"{name}/") for arm in known):
            raise ConfigurationError(f"arms: found {name!r}, expected some of {known}")
    kept = [
        arm for arm in known if any(arm == name or arm.startswith(f"{name}/") for name in wanted)
    ]
    executions = recording.executions.filter(pl.col("arm_id").is_in(kept))
    ids = executions.select("execution_id")
    return replace(
        recording,
        arms=recording.arms.filter(pl.col("arm_id").is_in(kept)),
        executions=executions,
        checks=recording.checks.join(ids, on="execution_id", how="semi", maintain_order="left"),
        trajectories=recording.trajectories.join(
            ids, on="execution_id", how="semi", maintain_order="left"
        ),
    )


def _recorded(recording: Recording) -> Source:
    return Source(recording, lambda lanes, itinerary, mind: Replay(recording, lanes, itinerary))


def _simulated(root: Path, families: list[str] | None, config: DictConfig) -> Source:
    recording, embedded = load_simulated(root, families)
    traits = Traits(
        **{key: value for key, value in container(config.agent).items() if key != "name"}
    )

    def trialist(lanes: pl.DataFrame, itinerary: pl.DataFrame, mind: Mind) -> Trialist:
        reader = Reader(mind.embedder, mind.lexicon, traits.understands)
        return Simulation(recording, embedded, lanes, itinerary, mind.library, traits, reader)

    return Source(recording, trialist)
