"""What the lanes know at the start of a step, and what a step adds to it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import dataframely as dy
import polars as pl

from memos_flow.alike import Alike
from memos_flow.schemas import (
    PARTS,
    TABLES,
    AlikeLanes,
    CandidatePool,
    Eligibility,
    Episodes,
    Feedback,
    Guidance,
    Policies,
    Repairs,
    Skills,
    Traces,
    Trajectories,
    Trials,
    WorldModels,
)
from memos_flow.schemas.vocabulary import STEP_PARTS


@dataclass(frozen=True)
class Step:
    """The rows that a step adds: those of content tables, and by part (schemas.PARTS) which lanes
    are alike there, with the rows of those that stand for the others."""

    content: Mapping[str, pl.DataFrame]
    parts: Mapping[str, tuple[Alike, Mapping[str, pl.DataFrame]]]

    def tables(self) -> dict[str, pl.DataFrame]:
        """The rows by table."""
        return dict(self.content) | {
            name: rows for _, part in self.parts.values() for name, rows in part.items()
        }

    def of_every_lane(self) -> dict[str, pl.DataFrame]:
        """The rows by table, those of lanes that others stand for too."""
        return dict(self.content) | {
            name: lanes.each(rows)
            for lanes, part in self.parts.values()
            for name, rows in part.items()
        }

    def alike_lanes(self, step: int) -> dy.DataFrame[AlikeLanes]:
        """The lanes that others stand for."""
        return AlikeLanes.cast(
            pl.concat(
                lanes.lanes.filter(pl.col("lane_id") != pl.col("like")).with_columns(
                    part=pl.lit(part, pl.Enum(STEP_PARTS)), step=pl.lit(step, pl.Int32)
                )
                for part, (lanes, _) in self.parts.items()
            )
        )


@dataclass(frozen=True)
class _Part:
    """Tables that one part of a step writes: the current version of every row that later steps
    read."""

    #: Its name in schemas.PARTS.
    part: ClassVar[str]
    #: Lanes in which these tables are the same: they hold the rows of those that stand for others.
    lanes: Alike

    @classmethod
    def empty(cls, lanes: Alike) -> Self:
        tables: dict[str, Any] = {name: TABLES[name].create_empty() for name in cls.tables()}
        return cls(lanes, **tables)

    @classmethod
    def tables(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls) if field.name != "lanes")

    def frames(self) -> dict[str, pl.DataFrame]:
        """The tables by name."""
        return {name: getattr(self, name) for name in self.tables()}

    def of(self, lanes: Alike) -> Self:
        """What the lanes that stand in `lanes` know."""
        known: dict[str, Any] = {
            name: lanes.rows(rows, self.lanes) for name, rows in self.frames().items()
        }
        return type(self)(lanes, **known)

    def after(self, step: Step) -> Self:
        """With the rows of a step: a newer version replaces the older."""
        names = self.tables()
        lanes, part = step.parts[self.part]
        grown = Alike.by(self.lanes, lanes.equal(*(part[name] for name in names)))
        known = self.of(grown)
        newest: dict[str, Any] = {
            name: _newest(name, getattr(known, name), grown.rows(part[name], lanes))
            for name in names
        }
        return type(self)(grown, **newest)


@dataclass(frozen=True)
class Heard(_Part):
    """What happened, and what was said of it."""

    part = "hearing"
    trials: dy.DataFrame[Trials]
    episodes: dy.DataFrame[Episodes]
    feedback: dy.DataFrame[Feedback]
    traces: dy.DataFrame[Traces]


@dataclass(frozen=True)
class Learned(_Part):
    """What was learned from it."""

    part = "learning"
    policies: dy.DataFrame[Policies]
    guidance: dy.DataFrame[Guidance]
    repairs: dy.DataFrame[Repairs]
    candidate_pool: dy.DataFrame[CandidatePool]


@dataclass(frozen=True)
class Practised(_Part):
    """The skills, and which experiences may be in one."""

    part = "practising"
    skills: dy.DataFrame[Skills]
    eligibility: dy.DataFrame[Eligibility]


@dataclass(frozen=True)
class Understood(_Part):
    """What the environments are like."""

    part = "understanding"
    world_models: dy.DataFrame[WorldModels]


@dataclass(frozen=True)
class Memory:
    """All that the lanes know."""

    #: Of all trials, whatever lanes had them.
    trajectories: dy.DataFrame[Trajectories]
    heard: Heard
    learned: Learned
    practised: Practised
    understood: Understood

    @classmethod
    def empty(cls, lane_ids: pl.Series) -> Self:
        """No lane knows anything: all are alike."""
        lanes = Alike.by(lane_ids.to_frame("lane_id").with_columns(known=pl.lit(0)))
        parts: Any = [part.empty(lanes) for part in _PARTS]
        return cls(Trajectories.create_empty(), *parts)

    @classmethod
    def as_of(cls, tables: Mapping[str, pl.DataFrame], lane_ids: pl.Series) -> Self:
        """The memory that the rows stored so far amount to: what a resumed run starts from."""
        alone = Alike.alone(lane_ids)
        return cls.empty(lane_ids).after(Step(tables, dict.fromkeys(PARTS, (alone, tables))))

    @staticmethod
    def tables() -> tuple[str, ...]:
        """The stored tables that a memory is made of."""
        return (*(name for part in _PARTS for name in part.tables()), "trajectories")

    def lanes(self) -> list[Alike]:
        """In which lanes each part is the same."""
        return [part.lanes for part in self._parts()]

    def of(self, lanes: Alike) -> Self:
        """What the lanes that stand in `lanes` know."""
        parts: Any = [part.of(lanes) for part in self._parts()]
        return type(self)(self.trajectories, *parts)

    def after(self, step: Step) -> Self:
        """The memory with the rows of a step."""
        done: Any = _newest("trajectories", self.trajectories, step.content["trajectories"])
        parts: Any = [part.after(step) for part in self._parts()]
        return type(self)(done, *parts)

    def _parts(self) -> tuple[_Part, ...]:
        return (self.heard, self.learned, self.practised, self.understood)


_PARTS: tuple[type[_Part], ...] = (Heard, Learned, Practised, Understood)
#: What identifies a thing across its versions, and what orders the versions.
_VERSIONS: Mapping[str, tuple[list[str], str]] = {
    "trajectories": (["execution_id", "position"], "position"),
    "episodes": (["lane_id", "episode_step"], "updated_step"),
    "traces": (["lane_id", "trace_id"], "updated_step"),
    "policies": (["lane_id", "policy_id"], "updated_step"),
    "eligibility": (["lane_id", "policy_id"], "step"),
    "skills": (["lane_id", "skill_id"], "version"),
    "world_models": (["lane_id", "world_model_id"], "version"),
    "candidate_pool": (["lane_id", "signature", "trace_id"], "updated_step"),
}


def _newest(name: str, known: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    if name not in _VERSIONS:
        return pl.concat([known, new], rechunk=False)
    key, version = _VERSIONS[name]
    latest = new.sort(*key, version).unique(key, keep="last", maintain_order=True)
    kept = known.join(latest, on=key, how="anti", maintain_order="left")
    return pl.concat([kept, latest], rechunk=False)
