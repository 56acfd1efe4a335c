"""What is injected at the start of a task."""

import dataframely as dy
import polars as pl


class Packets(dy.Schema):
    """One row per lane and step, the empty packet included."""

    lane_id = dy.Int64(primary_key=True)
    step = dy.Int32(primary_key=True, min=0)
    #: Null for the empty packet.
    text_id = dy.Int64(nullable=True)
    characters = dy.Int32(min=0)
    items = dy.Int32(min=0)
    #: The lane is so large that an approximate index chose what was compared: two runs may differ.
    approximate = dy.Bool()

    @dy.rule()
    def an_empty_packet_has_no_text(cls) -> pl.Expr:
        return (pl.col("items") == 0) == pl.col("text_id").is_null()
