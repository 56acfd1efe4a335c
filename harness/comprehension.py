"""Comprehension: does the scripted agent understand what people write? Measured on lines that were
written without a look at it; reported, never a target."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.families import read_text
from harness.kit import Family, ways_of
from harness.scripted import Note, Reader

LINES = "comprehension.jsonl"


def comprehension(folder: Path, family: Family, reader: Reader) -> dict[str, Any]:
    """How many lines of the family's file are understood as they are meant.

    `right`: step and way, or rightly taken as speaking of none; `wrong_way`: the step but not the
    way; `wrong_step`; `missed`: a line about a step that was not understood; `false_alarm`: a line
    about none that was. `accuracy` is the share that is right; null without lines.
    """
    rows = _rows(folder / LINES, family)
    reader.learn(row["text"] for row in rows)
    steps = [*family.steps, "schema"]
    verdicts = [(_verdict(row, family, reader, steps), row) for row in rows]
    counts = Counter(verdict for verdict, _ in verdicts)
    return {
        "family": folder.name,
        "lines": len(rows),
        "about_a_step": sum(row["step"] is not None for row in rows),
        "accuracy": counts["right"] / len(rows) if rows else None,
        **{name: counts[name] for name in _VERDICTS},
        "misunderstood": [
            {"text": row["text"], "verdict": verdict, "step": row["step"], "way": row["way"]}
            for verdict, row in verdicts
            if verdict != "right"
        ],
    }


_VERDICTS = ("right", "wrong_way", "wrong_step", "missed", "false_alarm")


def _verdict(row: Mapping[str, Any], family: Family, reader: Reader, steps: list[str]) -> str:
    told = reader.understood(Note("do", row["text"]), family, steps)
    if row["step"] is None:
        return "false_alarm" if told else "right"
    if not told:
        return "missed"
    own = [(way, take) for step, way, take in told if step == row["step"] and way is not None]
    if not own:
        return "wrong_step"
    way, take = own[0]
    # Of two ways, forbidding one tells to take the other.
    others = [name for name in ways_of(family, row["step"]) if name != way]
    meant = row["way"] == way if take else row["way"] in others
    return "right" if meant else "wrong_way"


def _rows(path: Path, family: Family) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        row = json.loads(line)
        step, way = row.get("step"), row.get("way")
        if step is not None and way not in ways_of(family, step):
            raise InputError(
                f"{path}:{number}",
                "no such way",
                field="way",
                found=way,
                expected=str([*ways_of(family, step)]),
            )
        rows.append(row)
    return rows
