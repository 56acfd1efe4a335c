"""Decision repairs: a better and a worse choice in the same context."""

import dataframely as dy
import polars as pl


class Repairs(dy.Schema):
    """One row per repair; its lines are guidance of the experiences that share the evidence."""

    lane_id = dy.Int64(primary_key=True)
    repair_id = dy.Int64(primary_key=True, min=0)
    step = dy.Int32(min=0)
    #: What the cooldown counts by.
    context = dy.String(min_length=1)
    feedback_id = dy.Int64(nullable=True, min=0)
    best_trace_id = dy.Int64(nullable=True, min=0)
    worst_trace_id = dy.Int64(min=0)
    value_gap = dy.Float64(nullable=True, min=0)
    prefer_text_id = dy.Int64(nullable=True)
    avoid_text_id = dy.Int64(nullable=True)
    policy_ids = dy.List(dy.Int64(), nullable=False)

    @dy.rule()
    def says_something(cls) -> pl.Expr:
        return pl.col("prefer_text_id").is_not_null() | pl.col("avoid_text_id").is_not_null()
