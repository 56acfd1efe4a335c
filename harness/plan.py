"""Which lanes there are, and which task each has at each step."""

from random import Random

import polars as pl

from harness.errors import ConfigurationError
from memos_flow.schemas import Lanes
from memos_flow.texts import content_id


def lanes_of(
    variants: pl.DataFrame, arms: pl.DataFrame, families: list[str], seeds: int, scope: str
) -> pl.DataFrame:
    """Schema Lanes: every variant with every arm, family (null for shared scope) and seed."""
    sequences = pl.DataFrame(
        {"family": families if scope == "family" else [None]}, schema={"family": pl.String}
    )
    grid = (
        variants.select("variant_id")
        .join(arms.select("arm_id"), how="cross")
        .join(sequences, how="cross")
        .join(pl.DataFrame({"seed": range(seeds)}, schema={"seed": pl.Int32}), how="cross")
    )
    ids = [content_id(scope, *row) for row in grid.iter_rows()]
    named = grid.with_columns(lane_id=pl.Series(ids, dtype=pl.Int64), scope=pl.lit(scope))
    return Lanes.validate(
        _with_packet_sources(named, variants, families, scope)
        .select(Lanes.column_names())
        .sort("lane_id"),
        cast=True,
    )


def _with_packet_sources(
    lanes: pl.DataFrame, variants: pl.DataFrame, families: list[str], scope: str
) -> pl.DataFrame:
    """Add `packet_source_lane_id`: for a `shuffled` lane the lane of the next family that has the
    same arm and seed and a memory of its own.

    Raises ConfigurationError where there is no such lane.
    """
    shuffled = variants.filter(pl.col("recall_packet") == "shuffled")["variant_id"].to_list()
    own = variants.filter(pl.col("recall_packet") == "memory")["variant_id"].to_list()
    if not shuffled:
        return lanes.with_columns(packet_source_lane_id=pl.lit(None, pl.Int64))
    if scope != "family" or len(families) < 2 or not own:
        raise ConfigurationError(
            f"memory.{shuffled[0]}: needs the packets of another family's lane, expected "
            "scope=family, two families or more and a setting with recall.packet=memory beside it"
        )
    following = dict(zip(families, [*families[1:], families[0]], strict=True))
    sources = lanes.filter(pl.col("variant_id") == own[0]).select(
        "arm_id", "seed", source_family="family", source="lane_id"
    )
    is_shuffled = pl.col("variant_id").is_in(shuffled)
    return (
        lanes.with_columns(source_family=pl.col("family").replace_strict(following))
        .join(sources, on=["arm_id", "seed", "source_family"], how="left", maintain_order="left")
        .with_columns(packet_source_lane_id=pl.when(is_shuffled).then("source"))
    )


def itinerary_of(lanes: pl.DataFrame, tasks: pl.DataFrame, order: str) -> pl.DataFrame:
    """Every task of every lane: `lane_id`, `step` and the columns of schema Tasks.

    Family scope: the family's own order. Shared scope: all families, in an order drawn from the
    lane's seed; `sequential` finishes a family before the next, `interleaved` takes the families'
    first tasks, then their second ones, and so on.
    """
    within = lanes.filter(pl.col("scope") == "family").join(
        tasks.with_columns(step=pl.col("task_index").rank("ordinal").over("family") - 1),
        on="family",
        how="inner",
    )
    shared = lanes.filter(pl.col("scope") == "shared").drop("family")
    across = shared.join(
        pl.concat([_shared_order(tasks, seed, order) for seed in sorted(set(lanes["seed"]))]),
        on="seed",
        how="inner",
    )
    columns = ["lane_id", pl.col("step").cast(pl.Int32), *tasks.columns]
    return pl.concat([within.select(columns), across.select(columns)]).sort("lane_id", "step")


def _shared_order(tasks: pl.DataFrame, seed: int, order: str) -> pl.DataFrame:
    families = sorted(set(tasks["family"]))
    Random(content_id("family order", seed)).shuffle(families)
    places = pl.DataFrame(
        {"family": families, "place": range(len(families))},
        schema={"family": pl.String, "place": pl.Int32},
    )
    by = ["place", "task_index"] if order == "sequential" else ["task_index", "place"]
    return (
        tasks.join(places, on="family")
        .sort(by)
        .with_row_index("step")
        .with_columns(seed=pl.lit(seed, pl.Int32))
        .drop("place")
    )
