"""The funnel from feedback to outcome, with the reason of every loss (section 6.3)."""

import polars as pl

from reports.summary import Tables, variant_of_lanes

STAGES = (
    "planned trials",
    "scored trials",
    "failed trials",
    "feedback",
    "lessons",
    "significant lessons",
    "lessons in experiences",
    "experiences",
    "experiences that may seed a skill",
    "skills",
    "candidates considered",
    "items injected",
    "packets with an item",
)


def funnel(tables: Tables) -> pl.DataFrame:
    """`variant_id`, `stage`, `number`: how much is left after each stage, in the order of STAGES.

    `experiences` counts distinct experiences, not their versions.
    """
    lessons, policies, items = tables["lessons"], tables["policies"], tables["packet_items"]
    trials = tables["trials"]
    seeds = policies.filter("skill_eligible")
    stages = {
        "planned trials": trials,
        "scored trials": trials.filter(pl.col("reward").is_not_null()),
        "failed trials": trials.filter(~pl.col("passed")),
        "feedback": tables["feedback"],
        "lessons": lessons,
        "significant lessons": lessons.filter("significant"),
        "lessons in experiences": lessons.filter(pl.col("effect").is_not_null()),
        "experiences": policies.unique(["lane_id", "policy_id"]),
        "experiences that may seed a skill": seeds.unique(["lane_id", "policy_id"]),
        "skills": tables["skills"].unique(["lane_id", "skill_id"]),
        "candidates considered": items,
        "items injected": items.filter(pl.col("fate") == "injected"),
        "packets with an item": tables["packets"].filter(pl.col("items") > 0),
    }
    return _counted(tables, {name: stages[name].select("lane_id") for name in STAGES}, "stage")


def reasons(tables: Tables) -> pl.DataFrame:
    """`variant_id`, `stage`, `reason`, `number`: why something did not go on, by frequency."""
    lanes = variant_of_lanes(tables)
    lost = {
        "trial": tables["trials"].filter(pl.col("reward").is_null()).select("lane_id", "status"),
        "lesson": tables["lessons"]
        .filter(pl.col("dropped").is_not_null())
        .select("lane_id", "dropped"),
        "skill": tables["eligibility"].select("lane_id", "decision"),
        "packet item": tables["packet_items"]
        .filter(pl.col("fate") != "injected")
        .select("lane_id", "fate"),
    }
    return (
        pl.concat(
            [
                frame.select(
                    "lane_id",
                    pl.lit(stage).alias("stage"),
                    pl.last().cast(pl.String).alias("reason"),
                )
                for stage, frame in lost.items()
            ]
        )
        .join(lanes, on="lane_id", how="left")
        .group_by("variant_id", "stage", "reason")
        .agg(number=pl.len())
        .sort("variant_id", "stage", "number", "reason", descending=[False, False, True, False])
    )


def kinds(tables: Tables) -> pl.DataFrame:
    """`variant_id`, `experience_type`, `number`: distinct experiences by their newest type."""
    lanes = variant_of_lanes(tables)
    return (
        tables["policies"]
        .sort("updated_step")
        .unique(["lane_id", "policy_id"], keep="last")
        .join(lanes, on="lane_id")
        .group_by("variant_id", pl.col("experience_type").cast(pl.String))
        .agg(number=pl.len())
        .sort("variant_id", "experience_type")
    )


def _counted(tables: Tables, rows: dict[str, pl.DataFrame], name: str) -> pl.DataFrame:
    """Rows per variant of each frame of `lane_id`; 0 where a variant has none."""
    lanes = variant_of_lanes(tables)
    variants = lanes.select("variant_id").unique()
    order = pl.DataFrame({name: list(rows), "place": range(len(rows))})
    counted = pl.concat(
        [
            frame.join(lanes, on="lane_id")
            .group_by("variant_id")
            .agg(number=pl.len().cast(pl.Int64))
            .with_columns(pl.lit(label).alias(name))
            for label, frame in rows.items()
        ]
    )
    return (
        variants.join(order, how="cross")
        .join(counted, on=["variant_id", name], how="left")
        .with_columns(pl.col("number").fill_null(0))
        .sort("variant_id", "place")
        .drop("place")
    )
