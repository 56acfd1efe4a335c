"""The memory's record of a trial."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import OUTCOME_SOURCES, OUTCOMES


class Episodes(dy.Schema):
    """A row version per re-score: late feedback gives a closed episode a new `updated_step`."""

    lane_id = dy.Int64(primary_key=True)
    episode_step = dy.Int32(primary_key=True, min=0)
    updated_step = dy.Int32(primary_key=True, min=0)
    outcome = dy.Enum(OUTCOMES)
    outcome_source = dy.Enum(OUTCOME_SOURCES)
    verifier_severity = dy.Float64(nullable=True, min=0, max=1)
    r_task = dy.Float64(min=-1, max=1)

    @dy.rule()
    def scored_after_it_began(cls) -> pl.Expr:
        return pl.col("updated_step") >= pl.col("episode_step")

    @dy.rule()
    def a_pass_has_no_severity(cls) -> pl.Expr:
        return (pl.col("outcome") != "pass") | (pl.col("verifier_severity").fill_null(0) == 0)
