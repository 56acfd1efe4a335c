"""The steps of an episode, as one lane values them."""

import dataframely as dy
import polars as pl


class Traces(dy.Schema):
    """A row version per re-valued trace; its texts are in `trajectories`."""

    lane_id = dy.Int64(primary_key=True)
    trace_id = dy.Int64(primary_key=True)
    updated_step = dy.Int32(primary_key=True, min=0)
    episode_step = dy.Int32(min=0)
    execution_id = dy.Int64()
    position = dy.Int32(min=0)
    value = dy.Float64(min=-1, max=1)
    #: max(value, 0) decayed by age: negative traces sink and stay on disk.
    priority = dy.Float64(min=0, max=1)

    @dy.rule()
    def a_negative_trace_has_no_priority(cls) -> pl.Expr:
        return (pl.col("value") > 0) | (pl.col("priority") == 0)
