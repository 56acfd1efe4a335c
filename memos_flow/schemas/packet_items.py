"""Every candidate that recall considered, and its fate."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import (
    EXPERIENCE_TYPES,
    ITEM_FATES,
    PACKET_SECTIONS,
    RECALL_CHANNELS,
)


class PacketItems(dy.Schema):
    """The parts of each candidate's score, its rank within its channel, and why it was dropped."""

    lane_id = dy.Int64(primary_key=True)
    step = dy.Int32(primary_key=True, min=0)
    channel = dy.Enum(RECALL_CHANNELS, primary_key=True)
    item_id = dy.Int64(primary_key=True, min=0)
    #: The step at which the item was first learned, and of the version that was recalled.
    created_step = dy.Int32(min=0)
    updated_step = dy.Int32(min=0)
    experience_type = dy.Enum(EXPERIENCE_TYPES, nullable=True)
    section = dy.Enum(PACKET_SECTIONS)
    text_id = dy.Int64()
    #: Null: all of it. Else a recalled skill holds the older lines: only newer ones count.
    after_step = dy.Int32(nullable=True, min=0)
    query_similarity = dy.Float64(min=-1, max=1)
    salience_or_gain = dy.Float64(min=0, max=1)
    confidence = dy.Float64(min=0, max=1)
    recency = dy.Float64(min=0, max=1)
    support = dy.Float64(min=0, max=1)
    score = dy.Float64()
    rank = dy.Int32(min=1)
    fate = dy.Enum(ITEM_FATES)

    @dy.rule()
    def recalled_what_was_learned_before(cls) -> pl.Expr:
        return pl.col("updated_step") < pl.col("step")
