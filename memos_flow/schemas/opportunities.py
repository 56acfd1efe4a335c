"""What every step promises, as k of n opportunities."""

import dataframely as dy
import polars as pl

CRITERIA = ("C1", "C2", "C3")


class Opportunities(dy.Schema):
    """C1 feedback grew, C2 a lesson changed an experience, C3 the packet holds a relevant one."""

    lane_id = dy.Int64(primary_key=True)
    step = dy.Int32(primary_key=True, min=0)
    criterion = dy.Enum(CRITERIA, primary_key=True)
    met = dy.Int32(min=0)
    opportunities = dy.Int32(min=0)

    @dy.rule()
    def not_more_met_than_opportunities(cls) -> pl.Expr:
        return pl.col("met") <= pl.col("opportunities")
