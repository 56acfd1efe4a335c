"""Controls: packets that are not the lane's own, to tell content from presence (section 4.10)."""

import dataframely as dy
import polars as pl

from memos_flow.injection import BARE_LENGTH, heading, neutralised, packets, within_budget
from memos_flow.library import Library
from memos_flow.schemas import PacketItems, Packets
from memos_flow.schemas.vocabulary import ITEM_FATES

#: What fills the packet of these lanes is given, not recalled.
_GIVEN = ("oracle", "irrelevant")


def controlled(
    own: dy.LazyFrame[Packets],
    lines: pl.LazyFrame,
    starts: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
) -> dy.LazyFrame[Packets]:
    """The packets, those of control lanes replaced.

    `own`: what each lane's memory offers. `lines`: `control`, `family`, `task`, `order`, `section`,
    `text`. Oracle packets hold all lines for the task; irrelevant ones as many whole lines as the
    lane's own packet has characters for, from another line on in each step; `shuffled` lanes get
    the packet of their `packet_source_lane_id`, a lane of another family.
    """
    rules = settings.select("lane_id", "recall_packet", "packet_source_lane_id")
    given = _given(own, lines, starts, rules, settings)
    filled = packets(given, starts, library)
    source = own.rename({"lane_id": "packet_source_lane_id"})
    kept = own.join(rules, on="lane_id", how="left")
    taken = [
        kept.filter(~pl.col("recall_packet").is_in(["shuffled", *_GIVEN])).select(
            Packets.column_names()
        ),
        filled.join(rules.filter(pl.col("recall_packet").is_in(_GIVEN)), on="lane_id", how="semi"),
        kept.filter(pl.col("recall_packet") == "shuffled")
        .select("lane_id", "step", "packet_source_lane_id")
        .join(source, on=["packet_source_lane_id", "step"], how="left")
        .with_columns(
            pl.col("characters", "items").fill_null(0), pl.col("approximate").fill_null(False)
        )
        .select(Packets.column_names()),
    ]
    return Packets.cast(
        pl.concat([part.select(Packets.column_names()) for part in taken]).sort("lane_id")
    )


def _given(
    own: pl.LazyFrame,
    lines: pl.LazyFrame,
    starts: pl.LazyFrame,
    rules: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> pl.LazyFrame:
    """The given lines of each control lane that fit, with the columns of `injection.lines`."""
    asked = (
        starts.select("lane_id", "step", "family", "task")
        .join(rules.rename({"recall_packet": "control"}), on="lane_id", how="inner")
        .join(own.select("lane_id", "characters"), on="lane_id", how="left")
    )
    oracle = asked.filter(pl.col("control") == "oracle").join(
        lines.filter(pl.col("control") == "oracle").drop("control"),
        on=["family", "task"],
        how="inner",
    )
    count = pl.len().over("lane_id")
    irrelevant = (
        asked.filter(pl.col("control") == "irrelevant")
        .join(
            lines.filter(pl.col("control") == "irrelevant").select("order", "section", "text"),
            how="cross",
        )
        .with_columns(order=(pl.col("order") + 7 * pl.col("step")) % count)
    )
    shaped = pl.concat([oracle, irrelevant], how="diagonal_relaxed").with_columns(
        text=pl.concat_str(pl.lit("- "), neutralised(pl.col("text"))),
        channel=pl.lit("experience"),
        item_id=pl.col("order").cast(pl.Int64),
        rank=pl.col("order"),
        repeated=pl.lit(False),
    )
    within = within_budget(shaped.sort("lane_id", "order"), settings)
    # As long as what the lane's own memory offered, in whole lines.
    length = pl.concat_str(heading(), "text").str.len_chars() + 1
    so_far = length.cast(pl.Int64).cum_sum().over("lane_id")
    return within.with_columns(
        fits=pl.col("fits")
        & ((pl.col("control") == "oracle") | (so_far + BARE_LENGTH <= pl.col("characters")))
    )


def without_own(
    items: dy.LazyFrame[PacketItems], settings: pl.LazyFrame
) -> dy.LazyFrame[PacketItems]:
    """The fates of what a control lane's own memory would have injected: replaced (`control`)."""
    replaced = pl.col("recall_packet").is_in(["shuffled", *_GIVEN]).fill_null(False)
    return PacketItems.cast(
        items.join(
            settings.select("lane_id", "recall_packet"),
            on="lane_id",
            how="left",
            maintain_order="left",
        ).with_columns(
            fate=pl.when(replaced & (pl.col("fate") == "injected"))
            .then(pl.lit("control"))
            .otherwise(pl.col("fate").cast(pl.String))
            .cast(pl.Enum(ITEM_FATES))
        )
    )
