"""One attempt of one agent at one task, as one lane lived it."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import TRIAL_STATUSES, UNSCORED_STATUSES


class Trials(dy.Schema):
    """Key (lane, step): a task runs once and is never re-run until it passes."""

    lane_id = dy.Int64(primary_key=True)
    step = dy.Int32(primary_key=True, min=0)
    family = dy.String(min_length=1)
    task = dy.String(min_length=1)
    task_index = dy.Int32(min=0)
    execution_id = dy.Int64()
    status = dy.Enum(TRIAL_STATUSES)
    reward = dy.Float64(nullable=True)
    passed = dy.Bool(nullable=True)

    @dy.rule()
    def unscored_has_no_reward(cls) -> pl.Expr:
        return pl.col("status").is_in(UNSCORED_STATUSES) == pl.col("reward").is_null()

    @dy.rule()
    def unscored_has_no_verdict(cls) -> pl.Expr:
        return pl.col("reward").is_null() == pl.col("passed").is_null()

    @dy.rule()
    def one_trial_per_task(cls) -> pl.Expr:
        return pl.len().over("lane_id", "family", "task") == 1
