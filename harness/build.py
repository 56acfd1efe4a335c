"""Build: the files of a family, written from its definition."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from harness.errors import InputError
from harness.families import INSTRUCTION, RANKING
from harness.faults import MATRIX, checks_of, measured
from harness.kit import Family, Files, answered, load_definition, written

EXPECTED = "expected.json"
#: The folders of a task that are written; others are left alone.
_WRITTEN = ("environment", "tests", "solution")
_TASK_TOML = """version = "1.0"

[metadata]
family = "{family}"

[verifier]
format = "{format}"
output = "{output}"
tolerance = {tolerance}
"""


def build(folder: Path) -> dict[str, Any]:
    """Write instructions, data, expected answers, the reference solution's output and the fault
    matrix; returns the matrix.

    Raises InputError where the two methods disagree, or where a fault breaks nothing.
    """
    family = load_definition(folder)
    files = family.generate(Random(family.seed))
    expected = {task: family.recompute(task, files[task]) for task in family.tasks}
    for task, about in family.tasks.items():
        _check(folder, family, task, files[task], expected)
        place = folder / task
        for name in _WRITTEN:
            shutil.rmtree(place / name, ignore_errors=True)
        _write(place / INSTRUCTION, about.instruction.strip() + "\n")
        for name, content in files[task].items():
            _write(place / "environment" / name, content)
        _write(place / "tests" / EXPECTED, json.dumps(expected[task], indent=1) + "\n")
        solution = answered(family, task, files[task], about.right, [])
        _write(place / "solution" / about.output, written(about.output, solution))
        _write(
            place / "task.toml",
            _TASK_TOML.format(
                family=folder.name,
                format=Path(about.output).suffix.removeprefix("."),
                output=about.output,
                tolerance=about.tolerance,
            ),
        )
    matrix = measured(family, files, expected)
    _write(folder / RANKING, json.dumps(list(family.tasks), indent=1) + "\n")
    _write(folder / MATRIX, json.dumps(matrix, indent=1) + "\n")
    return matrix


def _check(
    folder: Path, family: Family, task: str, files: Files, expected: Mapping[str, Any]
) -> None:
    failing = [
        check
        for check in checks_of(family, task, files, family.tasks[task].right, expected)
        if not check.passed
    ]
    if failing:
        raise InputError(
            folder / task,
            "the reference solution and the second method disagree",
            field=failing[0].field,
            found=failing[0].actual,
            expected=failing[0].expected,
        )


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
