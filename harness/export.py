"""Export: skills as Agent Skills folders, tables as Parquet, packets as text."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from harness.errors import ConfigurationError, StoreError

#: Limits of the published format (agentskills.io): a name is lower-case words joined by hyphens.
NAME_LENGTH: Final = 64
DESCRIPTION_LENGTH: Final = 1024
WHAT: Final = ("skills", "tables", "packets")
#: Front matter is YAML: a description is one quoted line.
_SKILL = """---
name: {name}
description: "{description}"
---

# {title}

## Procedure

{procedure}
{rest}"""


def export(tables: Mapping[str, pl.DataFrame], what: str, to: Path) -> list[Path]:
    """Write what is asked for below the folder `to`; returns the files written, in order.

    Raises StoreError where something is in the way.
    """
    if what not in WHAT:
        raise ConfigurationError(f"what: found {what!r}, expected one of {[*WHAT]}")
    if to.exists() and any(to.iterdir()):
        raise StoreError(f"{to}: not empty; choose to=DIR")
    return {"skills": _skills, "tables": _tables, "packets": _packets}[what](tables, to)


def _lane_names(tables: Mapping[str, pl.DataFrame]) -> dict[int, str]:
    """A folder name per lane: setting, arm, family and seed."""
    return {
        row["lane_id"]: _slug(
            f"{row['variant_id']} {row['arm_id']} {row['family'] or 'all'} seed {row['seed']}", 120
        )
        for row in tables["lanes"].iter_rows(named=True)
    }


def _skills(tables: Mapping[str, pl.DataFrame], to: Path) -> list[Path]:
    """`<lane>/<skill name>/SKILL.md`: the newest version of every skill that is not archived."""
    lanes = _lane_names(tables)
    texts = dict(tables["texts"].iter_rows())
    newest = (
        tables["skills"]
        .sort("lane_id", "skill_id", "version")
        .unique(["lane_id", "skill_id"], keep="last", maintain_order=True)
        .filter(pl.col("status") != "archived")
    )
    triggers = _triggers(tables)
    files = []
    taken: set[tuple[int, str]] = set()
    for row in newest.iter_rows(named=True):
        title = texts[row["name_text_id"]]
        name = _free_name(row["lane_id"], _slug(title, NAME_LENGTH - 4) or "skill", taken)
        when = [
            texts[triggers[row["lane_id"], policy]]
            for policy in row["anchor_policy_ids"]
            if (row["lane_id"], policy) in triggers
        ]
        path = to / lanes[row["lane_id"]] / name / "SKILL.md"
        _write(path, skill_file(name, title, texts[row["text_id"]], when, row))
        files.append(path)
    return files


def _free_name(lane: int, name: str, taken: set[tuple[int, str]]) -> str:
    number = 1
    free = name
    while (lane, free) in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add((lane, free))
    return free


def _triggers(tables: Mapping[str, pl.DataFrame]) -> dict[tuple[int, int], int]:
    newest = tables["policies"].sort("updated_step").unique(["lane_id", "policy_id"], keep="last")
    rows = newest.select("lane_id", "policy_id", "trigger_text_id").iter_rows()
    return {(lane, policy): trigger for lane, policy, trigger in rows}


def skill_file(name: str, title: str, body: str, when: list[str], counts: Mapping[str, Any]) -> str:
    """A SKILL.md: what the skill does and when, its steps, what to avoid and to check."""
    lines = body.splitlines()
    parts = {
        kind: [line.removeprefix(f"{kind}: ") for line in lines if line.startswith(f"{kind}: ")]
        for kind in ("Avoid", "Check")
    }
    steps = [line for line in lines if not line.startswith(("Avoid: ", "Check: "))]
    triggers = list(dict.fromkeys(when))
    description = f"{title}. Use for: {'; '.join(triggers) or 'similar tasks'}."
    tried = f"Tried in {counts['tried']} trials, {counts['passed']} of them passed."
    rest = "".join(
        f"\n## {kind}\n\n" + "".join(f"- {line}\n" for line in told)
        for kind, told in {**parts, "When to use": triggers, "Evidence": [tried]}.items()
        if told
    )
    return _SKILL.format(
        name=name,
        description=_one_line(description)[:DESCRIPTION_LENGTH]
        .replace("\\", "/")
        .replace('"', "'"),
        title=_one_line(title),
        procedure="".join(f"{place}. {step}\n" for place, step in enumerate(steps, start=1)),
        rest=rest,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _slug(text: str, length: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:length].strip("-")


def _tables(tables: Mapping[str, pl.DataFrame], to: Path) -> list[Path]:
    files = []
    for name, frame in tables.items():
        path = to / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path)
        files.append(path)
    return files


def _packets(tables: Mapping[str, pl.DataFrame], to: Path) -> list[Path]:
    """`<lane>/<step>-<task>.txt`, the empty packet as an empty file."""
    lanes = _lane_names(tables)
    texts = dict(tables["texts"].iter_rows())
    named = tables["packets"].join(
        tables["trials"].select("lane_id", "step", "task"), on=["lane_id", "step"]
    )
    files = []
    for row in named.sort("lane_id", "step").iter_rows(named=True):
        path = to / lanes[row["lane_id"]] / f"{row['step']:03}-{_slug(row['task'], 80)}.txt"
        _write(path, texts.get(row["text_id"], ""))
        files.append(path)
    return files


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
