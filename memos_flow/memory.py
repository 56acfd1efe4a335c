"""What the lanes know at the start of a step, and what a step adds to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import dataframely as dy
import polars as pl

from memos_flow.alike import Alike
from memos_flow.schemas import (
    LANE_TABLES,
    TABLES,
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


@dataclass(frozen=True)
class Step:
    """The rows that a step adds: those of content tables, and those of lanes that stand for lanes
    alike, by table, once for every way in which lanes are alike."""

    content: Mapping[str, pl.DataFrame]
    parts: Sequence[tuple[Alike, Mapping[str, pl.DataFrame]]]

    def tables(self) -> dict[str, pl.DataFrame]:
        """The rows of every lane, by table."""
        return {
            **self.content,
            **{name: lanes.each(rows) for lanes, part in self.parts for name, rows in part.items()},
        }


@dataclass(frozen=True)
class Memory:
    """The current version of every row that later steps read, for all lanes together."""

    #: Lanes that know the same: the tables hold the rows of those that stand for the others.
    lanes: Alike
    trials: dy.DataFrame[Trials]
    trajectories: dy.DataFrame[Trajectories]
    episodes: dy.DataFrame[Episodes]
    feedback: dy.DataFrame[Feedback]
    traces: dy.DataFrame[Traces]
    policies: dy.DataFrame[Policies]
    guidance: dy.DataFrame[Guidance]
    eligibility: dy.DataFrame[Eligibility]
    skills: dy.DataFrame[Skills]
    world_models: dy.DataFrame[WorldModels]
    repairs: dy.DataFrame[Repairs]
    candidate_pool: dy.DataFrame[CandidatePool]

    @classmethod
    def empty(cls, lane_ids: pl.Series) -> Self:
        """No lane knows anything: all are alike."""
        empty: dict[str, Any] = {name: TABLES[name].create_empty() for name in _NAMES}
        nothing = lane_ids.to_frame("lane_id").with_columns(known=pl.lit(0))
        return cls(lanes=Alike.by(nothing), **empty)

    @classmethod
    def as_of(cls, tables: Mapping[str, pl.DataFrame], lane_ids: pl.Series) -> Self:
        """The memory that the rows stored so far amount to: what a resumed run starts from."""
        content = {name: rows for name, rows in tables.items() if name not in LANE_TABLES}
        of_lanes = {name: rows for name, rows in tables.items() if name in LANE_TABLES}
        return cls.empty(lane_ids).after(Step(content, [(Alike.alone(lane_ids), of_lanes)]))

    @staticmethod
    def tables() -> tuple[str, ...]:
        """The stored tables that a memory is made of."""
        return _NAMES

    def of(self, lanes: Alike) -> Self:
        """What the lanes that stand in `lanes` know."""
        known: dict[str, Any] = {
            name: lanes.rows(rows, self.lanes) if name in LANE_TABLES else rows
            for name, rows in self._frames().items()
        }
        return type(self)(lanes=lanes, **known)

    def after(self, step: Step) -> Self:
        """The memory with the rows of a step: a newer version replaces the older."""
        parts = [
            (lanes, {name: rows for name, rows in part.items() if name in _NAMES})
            for lanes, part in step.parts
            if not part.keys().isdisjoint(_NAMES)
        ]
        grown = Alike.by(self.lanes, *(lanes.equal(*part.values()) for lanes, part in parts))
        known = self.of(grown)
        new = dict(step.content)
        for lanes, part in parts:
            new |= {name: grown.rows(rows, lanes) for name, rows in part.items()}
        newest: dict[str, Any] = {
            name: _newest(name, rows, new[name]) for name, rows in known._frames().items()
        }
        return type(self)(lanes=grown, **newest)

    def _frames(self) -> dict[str, pl.DataFrame]:
        return {name: getattr(self, name) for name in _NAMES}


_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Memory) if field.name != "lanes")
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
