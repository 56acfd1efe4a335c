"""What the lanes know at the start of a step."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import dataframely as dy
import polars as pl

from memos_flow.schemas import (
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
class Memory:
    """The current version of every row that later steps read, for all lanes together."""

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
    def empty(cls) -> Self:
        """No lane knows anything."""
        empty: dict[str, Any] = {name: TABLES[name].create_empty() for name in _NAMES}
        return cls(**empty)

    @classmethod
    def as_of(cls, tables: Mapping[str, pl.DataFrame]) -> Self:
        """The memory that the rows stored so far amount to: what a resumed run starts from."""
        return cls.empty().after(tables)

    @staticmethod
    def tables() -> tuple[str, ...]:
        """The stored tables that a memory is made of."""
        return _NAMES

    def after(self, step: Mapping[str, pl.DataFrame]) -> Self:
        """The memory with the rows of a step: a newer version replaces the older."""
        newest: dict[str, Any] = {
            name: _newest(name, getattr(self, name), step[name]) for name in _NAMES
        }
        return type(self)(**newest)


_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Memory))
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
