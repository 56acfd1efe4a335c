"""Why an experience did or did not build a skill."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import ELIGIBILITY


class Eligibility(dy.Schema):
    """One row whenever the decision on an experience changes."""

    lane_id = dy.Int64(primary_key=True)
    policy_id = dy.Int64(primary_key=True, min=0)
    step = dy.Int32(primary_key=True, min=0)
    decision = dy.Enum(ELIGIBILITY)
    skill_id = dy.Int64(nullable=True, min=0)

    @dy.rule()
    def only_the_eligible_build(cls) -> pl.Expr:
        return pl.col("skill_id").is_null() | pl.col("decision").is_in(["eligible", "up-to-date"])
