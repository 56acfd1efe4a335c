"""Evaluations bound to an episode."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import (
    CHANNELS,
    FEEDBACK_SOURCES,
    OUTCOME_SOURCES,
    OUTCOMES,
    POLARITIES,
    QUARANTINE_REASONS,
    STEP_SPAN,
)


class Feedback(dy.Schema):
    """One row per evaluation, bound to the episode it speaks of (never to a new one)."""

    lane_id = dy.Int64(primary_key=True)
    feedback_id = dy.Int64(primary_key=True, min=0)
    #: When it arrived; `episode_step` is what it speaks of.
    step = dy.Int32(min=0)
    episode_step = dy.Int32(min=0)
    channel = dy.Enum(CHANNELS)
    source = dy.Enum(FEEDBACK_SOURCES)
    polarity = dy.Enum(POLARITIES)
    magnitude = dy.Float64(min=0, max=1)
    text_id = dy.Int64(nullable=True)
    #: The verifier's checks, where it came from a verifier.
    execution_id = dy.Int64(nullable=True)
    outcome = dy.Enum(OUTCOMES)
    outcome_source = dy.Enum(OUTCOME_SOURCES)
    verifier_severity = dy.Float64(nullable=True, min=0, max=1)
    #: The same evaluation of the same episode was there before: it changes nothing.
    duplicate = dy.Bool()
    quarantine = dy.Enum(QUARANTINE_REASONS, nullable=True)

    @dy.rule()
    def speaks_of_an_episode_that_ended(cls) -> pl.Expr:
        return pl.col("episode_step") <= pl.col("step")

    @dy.rule()
    def id_tells_the_step(cls) -> pl.Expr:
        return pl.col("feedback_id") // STEP_SPAN == pl.col("step")

    @dy.rule()
    def a_verifier_speaks_explicitly_of_an_execution(cls) -> pl.Expr:
        return (pl.col("source") != "verifier") | (
            (pl.col("channel") == "explicit") & pl.col("execution_id").is_not_null()
        )
