"""Red lines: each against the setting without it, on what it protects (section 1)."""

from collections.abc import Mapping

import polars as pl

from memos_flow.schemas.vocabulary import ANCHOR_TYPES
from reports import learning, retrieval
from reports.summary import Tables, variant_of_lanes

#: The setting that does without each red line, and the line.
WITHOUT: Mapping[str, tuple[int, str]] = {
    "no_feedback_path": (1, "significant feedback always enters the experience path"),
    "abs_value": (2, "the sign decides the type, not the size"),
    "negative_min_value": (2, "no negative minimum value"),
    "no_avoidance_recall": (3, "avoidance is recalled"),
    "no_success_anchor": (4, "a skill needs a success anchor"),
    "no_provenance_dedupe": (5, "recall removes what a skill already covers"),
}


def red_lines(tables: Tables) -> pl.DataFrame:
    """One row per red line that the run has a setting without: `line`, `statement`, `without`, the
    pass rates `full` and `setting`, their `difference` (setting minus full) with interval, `p` and
    `visible` (the smallest difference that these pairs would show), and per side (setting, then
    full) `unanchored_skills`, `experiences` per lane, `repeated_lines` (injected items that a
    recalled skill covers), `misled` (wrong steps that a line of the packet told a simulated agent
    to take, and it did) and `tokens` per packet. Empty without the setting `full`.
    """
    known = set(tables["variants"]["variant_id"])
    if "full" not in known or not known & set(WITHOUT):
        return pl.DataFrame(schema={"line": pl.Int64})
    differences = learning.paired_differences(tables, "full").rename({"variant_id": "without"})
    rates = learning.learning_metrics(tables).select(without="variant_id", setting="pass_rate")
    full = rates.filter(pl.col("without") == "full")["setting"][0]
    protected = _protected(tables)
    own = protected.filter(pl.col("variant_id") == "full").drop("variant_id")
    lines = pl.DataFrame(
        [
            {"without": name, "line": number, "statement": statement}
            for name, (number, statement) in WITHOUT.items()
            if name in known
        ]
    )
    return (
        lines.join(rates, on="without", how="left")
        .join(
            differences.select("without", "difference", "low", "high", "p", "p_holm", "visible"),
            on="without",
            how="left",
        )
        .join(protected.rename({"variant_id": "without"}), on="without", how="left")
        .with_columns(full=pl.lit(full))
        .join(own.rename({name: f"{name}_full" for name in own.columns}), how="cross")
        .select(
            *("line", "statement", "without", "full", "setting", "difference", "low", "high"),
            *("p", "p_holm", "visible"),
            *(f"{name}{side}" for name in own.columns for side in ("", "_full")),
        )
        .sort("line", "without")
    )


def _protected(tables: Tables) -> pl.DataFrame:
    """Per setting what the red lines protect."""
    lanes = variant_of_lanes(tables)
    number = lanes.group_by("variant_id").agg(lanes=pl.len())
    newest = tables["policies"].sort("updated_step").unique(["lane_id", "policy_id"], keep="last")
    successes = newest.filter(pl.col("experience_type").is_in(ANCHOR_TYPES)).select(
        "lane_id", "policy_id"
    )
    skills = tables["skills"].unique(["lane_id", "skill_id"])
    anchored = (
        skills.select("lane_id", "skill_id", policy_id="anchor_policy_ids")
        .explode("policy_id")
        .join(successes, on=["lane_id", "policy_id"], how="semi")
        .select("lane_id", "skill_id")
        .unique()
    )
    unanchored = skills.join(anchored, on=["lane_id", "skill_id"], how="anti")
    covering = (
        tables["packet_items"]
        .filter((pl.col("channel") == "skill") & (pl.col("fate") == "injected"))
        .join(
            tables["skills"].select(
                "lane_id", "updated_step", "source_policy_ids", item_id="skill_id"
            ),
            on=["lane_id", "item_id", "updated_step"],
        )
        .select("lane_id", "step", item_id="source_policy_ids")
        .explode("item_id")
        .unique()
    )
    repeated = (
        tables["packet_items"]
        .filter((pl.col("channel") == "experience") & (pl.col("fate") == "injected"))
        .join(covering, on=["lane_id", "step", "item_id"], how="semi")
    )
    misled = tables["trials"].join(
        tables["shown_faults"].filter("misled"), on="execution_id", how="inner"
    )

    def counted(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame.join(lanes, on="lane_id").group_by("variant_id").agg(pl.len().alias(name))

    tokens = retrieval.packet_facts(tables).select(
        "variant_id", tokens=pl.col("characters") / learning.CHARACTERS_PER_TOKEN
    )
    return (
        number.join(counted(unanchored, "unanchored_skills"), on="variant_id", how="left")
        .join(counted(newest, "experiences"), on="variant_id", how="left")
        .join(counted(repeated, "repeated_lines"), on="variant_id", how="left")
        .join(counted(misled, "misled"), on="variant_id", how="left")
        .join(tokens, on="variant_id", how="left")
        .with_columns(
            pl.col("unanchored_skills", "repeated_lines", "misled").fill_null(0),
            experiences=pl.col("experiences").fill_null(0) / pl.col("lanes"),
        )
        .drop("lanes")
    )
