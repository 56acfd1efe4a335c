"""Callable procedures, anchored in success."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import LIFECYCLE_STATUSES


class Skills(dy.Schema):
    """A row version per build or change of status."""

    lane_id = dy.Int64(primary_key=True)
    skill_id = dy.Int64(primary_key=True, min=0)
    version = dy.Int32(primary_key=True, min=1)
    created_step = dy.Int32(min=0)
    updated_step = dy.Int32(min=0)
    #: The step of the last rebuild: guidance newer than this is not in the skill yet.
    built_step = dy.Int32(min=0)
    domain = dy.String(nullable=True)
    status = dy.Enum(LIFECYCLE_STATUSES)
    name_text_id = dy.Int64()
    text_id = dy.Int64()
    anchor_policy_ids = dy.List(dy.Int64(), nullable=False)
    #: Anchors and supplement.
    source_policy_ids = dy.List(dy.Int64(), nullable=False)
    evidence_trace_ids = dy.List(dy.Int64(), nullable=False)
    #: False only where the lane's variant waives the anchor.
    anchor_required = dy.Bool()
    tried = dy.Int32(min=0)
    passed = dy.Int32(min=0)

    @dy.rule()
    def a_skill_has_an_anchor(cls) -> pl.Expr:
        return ~pl.col("anchor_required") | (pl.col("anchor_policy_ids").list.len() > 0)

    @dy.rule()
    def anchors_are_sources(cls) -> pl.Expr:
        return (
            pl.col("anchor_policy_ids").list.set_difference(pl.col("source_policy_ids")).list.len()
            == 0
        )

    @dy.rule()
    def not_more_passed_than_tried(cls) -> pl.Expr:
        return pl.col("passed") <= pl.col("tried")
