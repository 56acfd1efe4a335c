"""The family toolkit: what a family whose tasks are really done on data says about itself.

A family is a folder with a `family.py` that defines `FAMILY`. Everything else in the folder is
written from it by `memos-flow build family.path=DIR`: instructions, data, expected answers, the
reference solution's output and the fault matrix.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from harness.errors import InputError

DEFINITION = "family.py"
#: The step that every family has: which names the answer's top level gets.
SCHEMA_STEP, AS_ASKED, CARRIED_OVER = "schema", "as_asked", "carried_over"

#: The files of a task's environment: name (with folders) to content.
Files = Mapping[str, str]
#: The way taken at each step of a task.
Ways = Mapping[str, str]


@dataclass(frozen=True)
class Way:
    """One way to do a step: `does` says what it is, `trace` what a log shows of it.

    `says` are other sentences that tell to do it, some by forbidding another way: what the
    simulated agent has learned to mean this way. The more there are, the better it reads; what
    people write about the family is never among them.
    """

    does: str
    trace: str
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """A task of the family: which way is right at each of its steps, in the order they are done.

    Of two tasks with the same step, another way may be right: what was learned in the one is then
    wrong in the other.
    """

    instruction: str
    right: Ways
    output: str = "answers.json"
    #: Relative deviation up to which a number is right.
    tolerance: float = 1e-6


@dataclass(frozen=True)
class Family:
    """`solve` is the reference solution, in which a wrong way can be injected at any step;
    `recompute` finds the same answer by an independent method. Answers are nested dicts and lists.
    """

    steps: Mapping[str, Mapping[str, Way]]
    tasks: Mapping[str, Task]
    generate: Callable[[Random], Mapping[str, Files]]
    solve: Callable[[str, Files, Ways], Any]
    recompute: Callable[[str, Files], Any]
    #: Column and key names that a step works on: a sentence that names one speaks of that step.
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    title: str = ""
    seed: int = 13
    #: Probability that the simulated agent is weak at a step; else its own rate.
    difficulty: Mapping[str, float] = field(default_factory=dict)


def load_definition(folder: Path) -> Family:
    """The family defined in the folder's `family.py`.

    Raises InputError where there is none, or where it contradicts itself.
    """
    path = folder / DEFINITION
    if not path.is_file():
        raise InputError(folder, "no family definition", expected=f"a file {DEFINITION}")
    spec = spec_from_file_location(f"memos_flow_family_{folder.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        raise InputError(path, "no family", field="FAMILY", found=type(family).__name__)
    _check(path, family)
    return family


def _check(path: Path, family: Family) -> None:
    for name, task in family.tasks.items():
        for step, way in task.right.items():
            known = [*family.steps.get(step, {}), *([AS_ASKED] if step == SCHEMA_STEP else [])]
            if way not in known:
                raise InputError(
                    path, "no such way", field=f"{name}.{step}", found=way, expected=str(known)
                )


def faults_of(family: Family, task: str) -> list[str]:
    """Every wrong way of the task's steps, as `step:way`, in the order of the steps."""
    right = family.tasks[task].right
    return [
        f"{step}:{way}"
        for step, correct in right.items()
        for way in ([CARRIED_OVER] if step == SCHEMA_STEP else family.steps[step])
        if way != correct
    ]


def with_fault(right: Ways, fault: str) -> dict[str, str]:
    """The ways with one wrong one."""
    step, _, way = fault.partition(":")
    return {**right, step: way}


def answered(
    family: Family, task: str, files: Files, ways: Ways, previous_names: Sequence[str]
) -> Any:
    """What the solution answers by these ways. `previous_names`: the top level of the answer
    before, whose names a carried-over schema takes, in order."""
    answer = family.solve(task, files, ways)
    if ways.get(SCHEMA_STEP) != CARRIED_OVER:
        return answer
    return _renamed(answer, previous_names)


def _renamed(answer: Any, names: Sequence[str]) -> Any:
    if isinstance(answer, list):
        return [_renamed(row, names) for row in answer]
    own = list(answer)
    taken = [*names[: len(own)], *own[len(names) :]]
    return {name: answer[key] for name, key in zip(taken, own, strict=True)}


def top_level(answer: Any) -> list[str]:
    """The names at the answer's top level; of rows, those of the first."""
    if isinstance(answer, list):
        return list(answer[0]) if answer else []
    return list(answer)


def written(output: str, answer: Any) -> str:
    """The answer as the output file holds it: JSON, CSV rows, or `name: value` lines."""
    suffix = PurePosixPath(output).suffix
    if suffix == ".json":
        return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, top_level(answer), lineterminator="\n")
        writer.writeheader()
        writer.writerows(answer)
        return text.getvalue()
    return "".join(f"{name}: {_listed(value)}\n" for name, value in answer.items())


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


#: What the steps' ways mean where the family does not say it: the schema step is every family's.
SCHEMA_WAYS: Mapping[str, Way] = {
    AS_ASKED: Way(
        "Name the fields of the answer exactly as this task asks for them.",
        "wrote the keys of the requested schema",
        says=(
            "Use the keys of the schema in this task's instruction.",
            "Each task has its own answer format, follow it.",
            "Check the field names against the requested template before writing.",
            "The output must have the fields that were asked for here.",
            "字段名以本任务的要求为准。",
            "按照当前任务给出的格式输出。",
            "Do not reuse the field names of the previous task.",
            "Never copy the schema of the last answer.",
            "不要沿用上一个任务的字段。",
        ),
    ),
    CARRIED_OVER: Way(
        "Reuse the field names of the answer to the previous task.",
        "wrote the keys of the previous answer",
        says=(
            "Keep the same output fields as last time.",
            "Do not change the field names from one task to the next.",
            "沿用上一次的字段名。",
        ),
    ),
}


def ways_of(family: Family, step: str) -> Mapping[str, Way]:
    """The ways of a step by name."""
    return SCHEMA_WAYS if step == SCHEMA_STEP else family.steps[step]
