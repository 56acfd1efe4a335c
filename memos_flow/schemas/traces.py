"""The steps of an episode."""

import dataframely as dy
import polars as pl


class Traces(dy.Schema):
    """Thought, action, observation; a row version per re-valued trace."""

    lane_id = dy.Int64(primary_key=True)
    trace_id = dy.Int64(primary_key=True)
    updated_step = dy.Int32(primary_key=True, min=0)
    episode_step = dy.Int32(min=0)
    position = dy.Int32(min=0)
    thought_text_id = dy.Int64(nullable=True)
    action_text_id = dy.Int64(nullable=True)
    observation_text_id = dy.Int64(nullable=True)
    tool = dy.String(nullable=True)
    error_code = dy.String(nullable=True)
    #: `primary tag|secondary tag|tool|error code` (section 4.5).
    signature = dy.String(nullable=True)
    alpha = dy.Float64(nullable=True, min=0, max=1)
    value = dy.Float64(min=-1, max=1)
    #: max(value, 0) decayed by age: negative traces sink and stay on disk.
    priority = dy.Float64(min=0, max=1)

    @dy.rule()
    def a_negative_trace_has_no_priority(cls) -> pl.Expr:
        return (pl.col("value") > 0) | (pl.col("priority") == 0)
