"""The summary of a run: what was planned, what was scored, what the tables hold."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from memos_flow.schemas.vocabulary import UNSCORED_STATUSES

Tables = Mapping[str, pl.DataFrame]


def variant_of_lanes(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `variant_id`: what every report groups by."""
    return tables["lanes"].select("lane_id", "variant_id")


def injected_experiences(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step`, `item_id` (experience), `created_step`, `updated_step`,
    `experience_type`, `place`: what stood in each packet, with its own lines or as a source of an
    injected skill, once, in packet order."""
    injected = tables["packet_items"].filter(pl.col("fate") == "injected")
    columns = ["lane_id", "step", "item_id", "created_step", "updated_step", "experience_type"]
    channel = pl.col("channel").to_physical()
    own = injected.filter(pl.col("channel") == "experience").select(
        *columns, channel.alias("channel"), "rank"
    )
    versions = tables["skills"].select(
        "lane_id", "updated_step", "source_policy_ids", skill_id="skill_id"
    )
    newest = (
        tables["policies"]
        .sort("updated_step")
        .group_by("lane_id", item_id="policy_id")
        .agg(pl.col("created_step").first(), pl.col("experience_type").last())
    )
    through_skills = (
        injected.filter(pl.col("channel") == "skill")
        .select(
            *("lane_id", "step", "updated_step", "rank"),
            channel=channel,
            skill_id="item_id",
        )
        .join(versions, on=["lane_id", "skill_id", "updated_step"])
        .with_columns(item_id="source_policy_ids")
        .explode("item_id")
        .join(newest, on=["lane_id", "item_id"])
        .select(*columns, "channel", "rank")
    )
    return (
        pl.concat([own, through_skills])
        .sort("lane_id", "step", "channel", "rank", "item_id")
        .unique(["lane_id", "step", "item_id"], keep="first", maintain_order=True)
        .with_columns(place=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("lane_id", "step"))
        .drop("channel", "rank")
    )


def arms_summary(tables: Tables) -> pl.DataFrame:
    """Per (arm, variant): `planned`, `scored`, `unscored`, `passed`, `reward_sum`, `errors`.

    Planned counts every trial, unscored ones included; `errors` counts the statuses other than
    `scored`. Nothing is averaged over missing rows.
    """
    lanes = tables["lanes"].select("lane_id", "arm_id", "variant_id")
    trials = tables["trials"].join(lanes, on="lane_id", how="left")
    unscored = pl.col("status").is_in(UNSCORED_STATUSES)
    by = ["arm_id", "variant_id"]
    errors = (
        trials.filter(pl.col("status") != "scored")
        .group_by(*by, "status")
        .agg(number=pl.len())
        .sort(*by, "status")
        .group_by(by, maintain_order=True)
        .agg(errors=pl.struct(pl.col("status").cast(pl.String), "number"))
    )
    return (
        trials.group_by(by)
        .agg(
            planned=pl.len(),
            scored=(~unscored).sum(),
            unscored=unscored.sum(),
            passed=pl.col("passed").fill_null(False).sum(),
            reward_sum=pl.col("reward").sum(),
        )
        .join(errors, on=by, how="left")
        .sort(by)
    )


def summary(
    tables: Tables, hashes: Mapping[str, Mapping[str, int | str]], wall_seconds: float
) -> dict[str, Any]:
    """What `summary.json` holds: arms, lanes, steps, and each table's rows and hash."""
    trials = tables["trials"].height
    return {
        "arms": [
            {
                "arm": row["arm_id"],
                "variant": row["variant_id"],
                "planned": row["planned"],
                "scored": row["scored"],
                "unscored": row["unscored"],
                "passed": row["passed"],
                "reward_sum": row["reward_sum"],
                "errors": {item["status"]: item["number"] for item in row["errors"] or []},
            }
            for row in arms_summary(tables).iter_rows(named=True)
        ],
        "lanes": tables["lanes"].height,
        "steps": tables["trials"]["step"].n_unique(),
        "tables": {name: dict(entry) for name, entry in hashes.items()},
        "wall_seconds": round(wall_seconds, 3),
        "trials_per_second": round(trials / wall_seconds, 1) if wall_seconds > 0 else None,
    }
