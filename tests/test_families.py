"""Family folders: order, errors that name the place, and queries without ids."""

import json
from pathlib import Path

import pytest

from harness.errors import InputError
from harness.families import file_names, load_families, masked


def _family(root: Path, *tasks: str, instruction: str = "Write `answers.json`.") -> Path:
    for task in tasks:
        (root / "fam" / task).mkdir(parents=True)
        (root / "fam" / task / "instruction.md").write_text(instruction)
    return root / "fam"


def test_unlisted_tasks_come_after_the_ranked_ones_by_name(tmp_path: Path) -> None:
    family = _family(tmp_path, "a", "b", "c")
    (family / "ALL_TASK_DIFFICULTY_RANKING.json").write_text('["c"]')
    assert load_families(tmp_path).tasks["task"].to_list() == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("ranking", "told"),
    [
        ('["a", "ghost"]', "found 'ghost'"),
        ('["a", "a"]', "a task is listed twice"),
        ('{"a": 1}', "not a list of task names"),
        ("[", "RANKING.json:1:2: not JSON"),
    ],
)
def test_a_wrong_ranking_is_named(tmp_path: Path, ranking: str, told: str) -> None:
    family = _family(tmp_path, "a")
    (family / "ALL_TASK_DIFFICULTY_RANKING.json").write_text(ranking)
    with pytest.raises(InputError, match=told):
        load_families(tmp_path)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"task": "ghost", "text": "x"}, "feedback.jsonl:1: task: not understood"),
        ({"task": "a", "text": "x", "polarity": "bad"}, "polarity: not understood"),
        ({"task": "a", "text": "x", "magnitude": 2}, "magnitude: out of range"),
        ({"task": "a", "text": 3}, "text: not a text"),
        ({"task": "a", "text": "x", "txt": 1}, "txt: unknown field"),
    ],
)
def test_a_wrong_remark_is_named_by_line_and_field(tmp_path: Path, row: dict, told: str) -> None:
    family = _family(tmp_path, "a")
    (family / "feedback.jsonl").write_text(json.dumps(row))
    with pytest.raises(InputError, match=told):
        load_families(tmp_path)


def test_a_query_holds_no_id_of_its_own(tmp_path: Path) -> None:
    text = "Build the Fund Snapshot: save `/root/fund_snapshot.xlsx` from holdings.csv."
    _family(tmp_path, "fund-snapshot", instruction=text)
    families = load_families(tmp_path)
    row = families.tasks.row(0, named=True)
    query = dict(families.texts.iter_rows())[row["query_text_id"]].lower()
    assert "fund snapshot" not in query
    assert "fund_snapshot" not in query
    assert row["file_names"] == ["holdings.csv"]


def test_an_id_of_one_word_is_masked_only_where_it_is_written_as_one() -> None:
    assert masked("the ledger in `ledger`", ["ledger"]) == "the ledger in `this task`"


def test_file_names_are_those_of_files() -> None:
    text = "e.g. read data/in.csv, write out.report.json; summary.total is 3.5, see example.com"
    assert file_names(text) == ["in.csv", "out.report.json"]
