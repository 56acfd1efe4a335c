"""Environment cognition: regularities seen across experiences."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import LIFECYCLE_STATUSES


def _statements() -> dy.List:
    """Statements, each with the experience it came from."""
    return dy.List(dy.Struct({"text_id": dy.Int64(), "policy_id": dy.Int64()}), nullable=False)


class WorldModels(dy.Schema):
    """A row version per change; facts about the environment, not steps to do."""

    lane_id = dy.Int64(primary_key=True)
    world_model_id = dy.Int64(primary_key=True, min=0)
    version = dy.Int32(primary_key=True, min=1)
    created_step = dy.Int32(min=0)
    updated_step = dy.Int32(min=0)
    domain = dy.String(min_length=1)
    tool = dy.String(nullable=True)
    status = dy.Enum(LIFECYCLE_STATUSES)
    title_text_id = dy.Int64()
    text_id = dy.Int64()
    facts = _statements()
    behaviours = _statements()
    constraints = _statements()
    #: The whole domain bucket instead of a similarity cluster.
    loose = dy.Bool()
    cohesion = dy.Float64(min=-1, max=1)
    confidence = dy.Float64(min=0, max=1)
    source_policy_ids = dy.List(dy.Int64(), nullable=False, min_length=2)

    @dy.rule()
    def states_something_of_the_environment(cls) -> pl.Expr:
        return (pl.col("facts").list.len() + pl.col("constraints").list.len()) > 0
