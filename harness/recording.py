"""Recorded trials and their families, as tables that were checked once, at the boundary."""

from dataclasses import dataclass, field
from typing import Final

import dataframely as dy
import polars as pl

from harness.findings import Finding
from memos_flow.schemas import Arms, Checks, Executions, Tasks, Texts, Trajectories

#: What people said: of which task, after which task it came, and (known to the harness only) about
#: which fault; null is always delivered.
REMARKS: Final = {
    "family": pl.String,
    "task": pl.String,
    "arrives_after": pl.String,
    "text_id": pl.Int64,
    "polarity": pl.String,
    "magnitude": pl.Float64,
    "channel": pl.String,
    "fault": pl.String,
}


@dataclass(frozen=True)
class Recording:
    """Frames of the schemas named; `feedback` has the columns of REMARKS."""

    arms: pl.DataFrame
    tasks: pl.DataFrame
    executions: pl.DataFrame
    checks: pl.DataFrame
    trajectories: pl.DataFrame
    texts: pl.DataFrame
    feedback: pl.DataFrame
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raises a dataframely ValidationError for a row that breaks its schema."""
        schemas: dict[str, type[dy.Schema]] = {
            "arms": Arms,
            "tasks": Tasks,
            "executions": Executions,
            "checks": Checks,
            "trajectories": Trajectories,
            "texts": Texts,
        }
        for name, schema in schemas.items():
            schema.validate(getattr(self, name))
