"""Replay: recorded trials as the world of the memory. Packets cannot change what was recorded."""

import polars as pl

from harness.recording import Recording, remarks_of
from memos_flow.schemas import Checks, Executions, Trajectories, Trials
from memos_flow.step import World
from memos_flow.texts import content_id

_TASK = ["arm_id", "family", "task"]


class Replay:
    """Looks trials up; a planned task without a recorded trial was not run."""

    def __init__(self, recording: Recording, lanes: pl.DataFrame, itinerary: pl.DataFrame) -> None:
        self._recording = recording
        self._arms = lanes.select("lane_id", "arm_id")
        self._itinerary = itinerary
        self._executions = pl.concat([recording.executions, _not_run(recording)])

    def __call__(self, starts: pl.DataFrame, packets: pl.DataFrame) -> World:
        """The recorded trials of the tasks that start now, whatever the packets say."""
        trials = (
            starts.select("lane_id", "step", "family", "task", "task_index")
            .join(self._arms, on="lane_id", how="left")
            .join(
                self._executions.select(*_TASK, "execution_id", "status", "reward", "passed"),
                on=_TASK,
                how="left",
            )
            .select(Trials.column_names())
            .sort("lane_id", "step")
        )
        ids = trials.select("execution_id").unique()
        return World(
            trials=Trials.cast(trials),
            executions=Executions.cast(_of(self._executions, ids, Executions.primary_key())),
            checks=Checks.cast(_of(self._recording.checks, ids, Checks.primary_key())),
            trajectories=Trajectories.cast(
                _of(self._recording.trajectories, ids, Trajectories.primary_key())
            ),
            remarks=self._remarks(starts),
        )

    def restore(self, trials: pl.DataFrame, shown: pl.DataFrame) -> None:
        """A recording remembers nothing."""

    def drain(self) -> dict[str, pl.DataFrame]:
        """Nothing but the trials themselves comes from a recording."""
        return {}

    def _remarks(self, starts: pl.DataFrame) -> pl.DataFrame:
        """What people said; which fault a recorded trial showed is unknown, so remarks about one
        stay out."""
        always = self._recording.feedback.filter(pl.col("fault").is_null())
        return remarks_of(always, starts, self._itinerary).drop("fault")


def _of(frame: pl.DataFrame, ids: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    return frame.join(ids, on="execution_id", how="semi").sort(key)


def _not_run(recording: Recording) -> pl.DataFrame:
    """Planned trials that the recording does not hold: unscored, and in every "planned"."""
    missing = (
        recording.arms.select("arm_id")
        .join(recording.tasks.select("family", "task"), how="cross")
        .join(recording.executions, on=_TASK, how="anti")
    )
    ids = [content_id(*row, "not run") for row in missing.iter_rows()]
    return Executions.validate(
        missing.with_columns(
            execution_id=pl.Series(ids, dtype=pl.Int64),
            seed=pl.lit(0, pl.Int32),
            status=pl.lit("not_run"),
            has_verifier_output=pl.lit(False),
            verifier_suspect=pl.lit(False),
        ).select(
            *(
                pl.col(name) if name in _GIVEN else pl.lit(None, dtype).alias(name)
                for name, dtype in recording.executions.schema.items()
            )
        ),
        cast=True,
    )


_GIVEN = {*_TASK, "execution_id", "seed", "status", "has_verifier_output", "verifier_suspect"}
