"""Recorded trials and their families, as tables that were checked once, at the boundary."""

from dataclasses import dataclass, field
from typing import Final

import dataframely as dy
import polars as pl

from harness.findings import Finding
from memos_flow.schemas import (
    Arms,
    Checks,
    Executions,
    FaultMatrix,
    RemarkFaults,
    Tasks,
    Texts,
    Trajectories,
)

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
    #: What the harness knows of simulated trials; empty for recorded ones.
    fault_matrix: pl.DataFrame = field(default_factory=FaultMatrix.create_empty)
    remark_faults: pl.DataFrame = field(default_factory=RemarkFaults.create_empty)
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
            "fault_matrix": FaultMatrix,
            "remark_faults": RemarkFaults,
        }
        for name, schema in schemas.items():
            schema.validate(getattr(self, name))


def remarks_of(
    feedback: pl.DataFrame, starts: pl.DataFrame, itinerary: pl.DataFrame
) -> pl.DataFrame:
    """What people say once the tasks of `starts` are done, as `feedback.heard` takes it, with the
    `fault` it is about. `feedback`: rows of REMARKS."""
    spoken_of = itinerary.select("lane_id", "family", "task", episode_step="step")
    return (
        starts.select("lane_id", "step", "family", arrives_after="task")
        .join(feedback.with_row_index("order"), on=["family", "arrives_after"], how="inner")
        .join(spoken_of, on=["lane_id", "family", "task"], how="inner")
        .filter(pl.col("episode_step") <= pl.col("step"))
        .select(
            "lane_id",
            "step",
            "episode_step",
            "order",
            pl.lit("user").alias("source"),
            "channel",
            "polarity",
            "magnitude",
            "text_id",
            "fault",
            pl.lit(None, pl.String).alias("outcome"),
            pl.lit(None, pl.Float64).alias("verifier_severity"),
            pl.lit(None, pl.Int64).alias("execution_id"),
        )
        .sort("lane_id", "step", "order")
    )
