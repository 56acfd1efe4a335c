"""Rows are stored once for lanes that are alike: which lane's rows are whose."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import STEP_PARTS


class AlikeLanes(dy.Schema):
    """What a part of a step added to the lane `like`, it added to the lane `lane_id` too."""

    part = dy.Enum(STEP_PARTS, primary_key=True)
    step = dy.Int32(primary_key=True, min=0)
    lane_id = dy.Int64(primary_key=True)
    like = dy.Int64()

    @dy.rule()
    def of_another_lane(cls) -> pl.Expr:
        return pl.col("lane_id") != pl.col("like")
