"""The embedded families: their answers, their fault matrices, and what people said."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from harness.build import build
from harness.errors import InputError
from harness.faults import MATRIX, checks_of, measured
from harness.kit import (
    Family,
    Task,
    Way,
    faults_of,
    load_definition,
    top_level,
    with_fault,
    written,
)
from harness.resources import DATASETS

NAMES = sorted(path.parent.name for path in DATASETS.glob("*/family.py"))


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest) -> Path:
    return DATASETS / request.param


@pytest.fixture(scope="module")
def family(folder: Path) -> Family:
    return load_definition(folder)


def test_there_are_two_families_of_different_domains() -> None:
    assert {"sec13f", "incidents"} <= set(NAMES)


@pytest.mark.parametrize("seed", [1, 2])
def test_two_independent_methods_agree_on_other_data_too(family: Family, seed: int) -> None:
    files = family.generate(Random(seed))
    for task, about in family.tasks.items():
        assert family.solve(task, files[task], about.right) == family.recompute(task, files[task])


def test_the_folder_holds_what_its_definition_writes(family: Family, folder: Path) -> None:
    files = family.generate(Random(family.seed))
    for task, about in family.tasks.items():
        for name, content in files[task].items():
            assert (folder / task / "environment" / name).read_text(encoding="utf-8") == content
        expected = json.loads((folder / task / "tests" / "expected.json").read_text())
        assert expected == family.recompute(task, files[task])
        solution = (folder / task / "solution" / about.output).read_text(encoding="utf-8")
        assert solution == written(about.output, family.solve(task, files[task], about.right))


def test_the_stored_fault_matrix_is_what_is_measured(family: Family, folder: Path) -> None:
    files = family.generate(Random(family.seed))
    expected = {task: family.recompute(task, files[task]) for task in family.tasks}
    stored = json.loads((folder / MATRIX).read_text())
    assert stored == measured(family, files, expected)


def test_every_fault_breaks_every_task_that_has_its_step(family: Family, folder: Path) -> None:
    stored = json.loads((folder / MATRIX).read_text())
    first = next(iter(family.tasks))
    for task in family.tasks:
        silent = set(faults_of(family, task)) - set(stored[task])
        assert silent == ({"schema:carried_over"} & silent if task == first else set())


def test_a_remedy_of_one_task_is_wrong_in_another(family: Family) -> None:
    right = Counter(
        (step, way) for task in family.tasks.values() for step, way in task.right.items()
    )
    steps = Counter(step for step, _ in right)
    assert [step for step, ways in steps.items() if ways > 1]


def test_answers_differ_in_their_names(family: Family) -> None:
    files = family.generate(Random(family.seed))
    names = [set(top_level(family.recompute(task, files[task]))) for task in family.tasks]
    assert all(not one & other for one, other in pairwise(names))


def test_verifier_says_nothing_of_a_remedy(family: Family, folder: Path) -> None:
    files = family.generate(Random(family.seed))
    expected = {task: family.recompute(task, files[task]) for task in family.tasks}
    told = {about.does for ways in family.steps.values() for about in ways.values()}
    for task, about in family.tasks.items():
        for fault in faults_of(family, task):
            checks = checks_of(family, task, files[task], with_fault(about.right, fault), expected)
            assert not told & {check.field for check in checks}


def test_at_least_a_third_of_what_people_say_is_noise(folder: Path) -> None:
    lines = (folder / "feedback.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) >= 50
    assert sum(row["fault"] is None for row in rows) >= len(rows) / 3


_TINY = """
from harness.kit import Family, Task, Way

FAMILY = Family(
    steps={"unit": {"cents": Way("Count in cents.", "x"), "euro": Way("Count in euros.", "/ 100")}},
    tasks={"one": Task("Sum a.txt into answers.json.", {"unit": "RIGHT"})},
    generate=lambda random: {"one": {"a.txt": "100\\n200\\n"}},
    solve=lambda task, files, ways: {
        "sum": sum(map(int, files["a.txt"].split())) // (1 if ways["unit"] == "cents" else 100)
    },
    recompute=lambda task, files: {"sum": SUM},
)
"""


def _tiny(right: str = "cents", total: int = 300) -> str:
    return _TINY.replace("RIGHT", right).replace("SUM", str(total))


def test_your_own_family_is_built_and_runs(tmp_path: Path) -> None:
    from harness.cli import main

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "family.py").write_text(_tiny())
    assert build(tmp_path / "mine") == {
        "one": {"unit:euro": [{"kind": "numeric_deviation", "field": "sum"}]}
    }
    run = ["run", f"family.path={tmp_path / 'mine'}", f"output={tmp_path / 'run'}"]
    assert main(run) == 0
    assert main(["check", f"family.path={tmp_path / 'mine'}"]) == 0


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"right": "dollar"}, "no such way"),
        ({"total": 301}, "the reference solution and the second method disagree"),
    ],
)
def test_a_family_that_contradicts_itself_is_refused(
    tmp_path: Path, over: dict, message: str
) -> None:
    (tmp_path / "family.py").write_text(_tiny(**over))
    with pytest.raises(InputError, match=message):
        build(tmp_path)


def test_definitions_are_plain_data() -> None:
    assert Way("does", "trace").says == ()
    assert Task("do it", {}).output == "answers.json"
