"""One agent's pass through one task sequence with its own memory."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import SCOPES


class Lanes(dy.Schema):
    """(variant, arm, family or null for shared scope, seed), identified by a content hash."""

    lane_id = dy.Int64(primary_key=True)
    variant_id = dy.String(min_length=1)
    arm_id = dy.String(min_length=1)
    family = dy.String(nullable=True)
    seed = dy.Int32(min=0)
    scope = dy.Enum(SCOPES)
    #: The lane whose packets a `shuffled` control receives instead of its own.
    packet_source_lane_id = dy.Int64(nullable=True)

    @dy.rule()
    def family_scope_has_a_family(cls) -> pl.Expr:
        return (pl.col("scope") == "shared") == pl.col("family").is_null()
