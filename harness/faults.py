"""The fault matrix: every fault injected alone into the reference solution of every task.

It is measured, not written down. Two tasks share a lesson where the same fault breaks both.
"""

from collections.abc import Mapping
from typing import Any

from harness.kit import (
    CARRIED_OVER,
    SCHEMA_STEP,
    Family,
    Files,
    answered,
    faults_of,
    top_level,
    with_fault,
    written,
)
from harness.verifiers import Check, verified

MATRIX = "fault_matrix.json"


def previous_names(family: Family, task: str, expected: Mapping[str, Any]) -> list[str]:
    """The names of the answer before: none for the first task."""
    names = list(family.tasks)
    place = names.index(task)
    return top_level(expected[names[place - 1]]) if place else []


def checks_of(
    family: Family, task: str, files: Files, ways: Mapping[str, str], expected: Mapping[str, Any]
) -> list[Check]:
    """What the task's verifier says of the answer by these ways."""
    answer = answered(family, task, files, ways, previous_names(family, task, expected))
    about = family.tasks[task]
    return verified(about.output, written(about.output, answer), expected[task], about.tolerance)


def measured(
    family: Family, files: Mapping[str, Files], expected: Mapping[str, Any]
) -> dict[str, dict[str, list[dict[str, str | None]]]]:
    """Task to fault to the failing checks (`kind`, `field`); a fault without any is left out."""
    matrix: dict[str, dict[str, list[dict[str, str | None]]]] = {}
    for task, about in family.tasks.items():
        matrix[task] = {}
        for fault in faults_of(family, task):
            if fault == f"{SCHEMA_STEP}:{CARRIED_OVER}" and not previous_names(
                family, task, expected
            ):
                continue
            checks = checks_of(family, task, files[task], with_fault(about.right, fault), expected)
            failing = [
                {"kind": check.kind, "field": check.field} for check in checks if not check.passed
            ]
            if failing:
                matrix[task][fault] = failing
    return matrix
