"""Comparison: what differs between two runs, or between two settings of one (section 7)."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from memos_flow.injection import FENCE_CLOSE
from reports.acceptance import acceptance
from reports.summary import Tables

#: A lane of one side is compared with the lane of the other that has the same of these.
_LANE = ["arm_id", "lane_family", "seed"]
_SHOWN = 20


def lanes_of(tables: Tables, variant: str | None) -> pl.DataFrame:
    """`lane_id` and the columns that pair lanes, of one setting or of all."""
    lanes = tables["lanes"].select("lane_id", "variant_id", "arm_id", "seed", lane_family="family")
    return lanes if variant is None else lanes.filter(pl.col("variant_id") == variant)


def compared(
    left: Tables, right: Tables, variants: tuple[str, str] | None, recall_rate: float
) -> dict[str, Any]:
    """Experiences, skills, packets and outcomes that only one side has, each with text and place.

    `variants`: a setting of the left and one of the right side; None: every setting with its
    namesake. `regressions`: passed trials that fail on the right, and criteria of the acceptance
    report that pass on the left and fail on the right.
    """
    key = _LANE if variants else [*_LANE, "variant_id"]
    one, other = variants or (None, None)
    sides = (_side(left, lanes_of(left, one)), _side(right, lanes_of(right, other)))
    differing = {
        name: _only(sides[0][name], sides[1][name], [*key, *columns])
        for name, columns in _IDENTITY.items()
    }
    outcomes = _outcomes(sides[0]["outcomes"], sides[1]["outcomes"], key)
    broken = outcomes.filter(pl.col("left_passed") & ~pl.col("right_passed"))
    criteria = _criteria(left, right, variants, recall_rate)
    return {
        **{
            name: {
                "only_left": _rows(frames[0]),
                "only_right": _rows(frames[1]),
                "numbers": [frames[0].height, frames[1].height],
            }
            for name, frames in differing.items()
        },
        "outcomes": {"differing": _rows(outcomes), "number": outcomes.height},
        "criteria": criteria,
        "regressions": {
            "trials": broken.height,
            "criteria": [
                row["id"] for row in criteria if row["left"] == "pass" and row["right"] == "fail"
            ],
        },
    }


#: What makes two rows the same thing, beside their lane.
_IDENTITY: Mapping[str, list[str]] = {
    "experiences": ["experience_type", "lesson"],
    "skills": ["name", "text"],
    "packets": ["family", "task", "packet"],
}


def _side(tables: Tables, lanes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    texts = tables["texts"].select("text_id", "text")

    def worded(frame: pl.DataFrame, text_id: str, name: str) -> pl.DataFrame:
        named = texts.rename({"text_id": text_id, "text": name})
        return frame.join(named, on=text_id, how="left")

    policies = tables["policies"].sort("updated_step").unique(["lane_id", "policy_id"], keep="last")
    skills = tables["skills"].sort("version").unique(["lane_id", "skill_id"], keep="last")
    packets = tables["packets"].join(
        tables["trials"].select("lane_id", "step", "family", "task"), on=["lane_id", "step"]
    )
    return {
        "experiences": worded(policies, "lesson_text_id", "lesson")
        .with_columns(pl.col("experience_type").cast(pl.String))
        .select("lane_id", "policy_id", "experience_type", "lesson", "support")
        .join(lanes, on="lane_id"),
        "skills": worded(worded(skills, "name_text_id", "name"), "text_id", "text")
        .with_columns(pl.col("status").cast(pl.String))
        .select("lane_id", "skill_id", "status", "name", "text")
        .join(lanes, on="lane_id"),
        "packets": worded(packets, "text_id", "packet")
        .select("lane_id", "step", "family", "task", "packet")
        .join(lanes, on="lane_id"),
        "outcomes": tables["trials"]
        .select("lane_id", "family", "task", "passed")
        .join(lanes, on="lane_id"),
    }


def _only(
    left: pl.DataFrame, right: pl.DataFrame, key: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    return (
        left.join(right, on=key, how="anti", nulls_equal=True).sort(key),
        right.join(left, on=key, how="anti", nulls_equal=True).sort(key),
    )


def _outcomes(left: pl.DataFrame, right: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    own = [*key, "family", "task"]
    return (
        left.select(*own, left_passed="passed")
        .join(right.select(*own, right_passed="passed"), on=own, how="full", coalesce=True)
        .filter(pl.col("left_passed").ne_missing(pl.col("right_passed")))
        .sort(own)
    )


def _criteria(
    left: Tables, right: Tables, variants: tuple[str, str] | None, recall_rate: float
) -> list[dict[str, Any]]:
    """Criteria whose verdict differs."""
    verdicts = [
        {
            (entry["id"], None if variants else entry["variant"]): entry["verdict"]
            for entry in acceptance(tables, recall_rate)
            if variants is None or entry["variant"] == variants[place]
        }
        for place, tables in enumerate((left, right))
    ]
    return [
        {"id": name, "variant": variant, "left": verdict, "right": verdicts[1].get((name, variant))}
        for (name, variant), verdict in verdicts[0].items()
        if verdict != verdicts[1].get((name, variant))
    ]


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.head(_SHOWN).to_dicts()


def as_text(found: Mapping[str, Any]) -> str:
    """The comparison for a terminal: how many differ, and the first few with their text."""
    blocks = []
    for name in _IDENTITY:
        left, right = found[name]["numbers"]
        lines = [f"{name}: {left} only left, {right} only right"]
        for side in ("only_left", "only_right"):
            mark = "-" if side == "only_left" else "+"
            lines += [f"  {mark} {_told(name, row)}" for row in found[name][side][:5]]
        blocks.append("\n".join(lines))
    outcomes = found["outcomes"]
    lines = [f"outcomes: {outcomes['number']} differ"]
    lines += [
        f"  {row['family']}/{row['task']} seed {row['seed']}: "
        f"{_outcome(row['left_passed'])} -> {_outcome(row['right_passed'])}"
        for row in outcomes["differing"][:10]
    ]
    blocks.append("\n".join(lines))
    told = [f"  {row['id']}: {row['left']} -> {row['right']}" for row in found["criteria"]]
    blocks.append("\n".join([f"criteria: {len(told)} differ", *told]))
    broken = found["regressions"]
    criteria = ", ".join(broken["criteria"]) or "none"
    blocks.append(f"regressions: {broken['trials']} trials, criteria {criteria}")
    return "\n\n".join(blocks)


def _told(name: str, row: Mapping[str, Any]) -> str:
    place = f"lane {row['lane_id']}"
    if name == "experiences":
        return f"{place} experience {row['policy_id']}: {row['experience_type']}: {row['lesson']}"
    if name == "skills":
        return f"{place} skill {row['skill_id']} ({row['status']}): {row['name']}"
    notes = (row["packet"] or "(empty)").split("goes first.")[-1].split(FENCE_CLOSE)[0]
    text = " ".join(notes.split())
    return f"{place} packet of {row['family']}/{row['task']}: {text[:160]}"


def _outcome(passed: bool | None) -> str:
    return "unscored" if passed is None else "pass" if passed else "fail"
