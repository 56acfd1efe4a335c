"""The gate: what the memory would make of feedback rows, by several hundred examples of our own."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from harness.cli import main
from harness.lexicons import load_lexicon
from memos_flow.classify import understood
from tests.conftest import CONF

EXAMPLES = Path(__file__).parent / "examples" / "feedback.jsonl"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _gate(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["gate", f"input={path}"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What the gate makes of one row."""

    def judge(**row: Any) -> dict[str, Any]:
        path = tmp_path / "row.jsonl"
        path.write_text(json.dumps({"id": "x", **row}), encoding="utf-8")
        return _gate(path, capsys)[0]

    return judge


def test_the_examples_are_judged_as_a_careful_reader_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At least 95 of 100 in each language, and never a skill's anchor where there must be none."""
    rows = _rows(EXAMPLES)
    pairs = list(zip(rows, _gate(EXAMPLES, capsys), strict=True))
    clear = [(row, got) for row, got in pairs if not row["expect"].get("ambiguous")]
    assert [row["id"] for row, got in clear if row["id"] != got["id"]] == []
    seeds = [
        row["id"]
        for row, got in clear
        if any(one["skill_eligible"] for one in got["experiences"])
        and not row["expect"]["may_seed_skill"]
    ]
    assert seeds == []
    right, total = Counter(), Counter()
    for row, got in clear:
        total[row["lang"]] += 1
        right[row["lang"]] += bool(got["experiences"]) == row["expect"]["creates_experience"]
    assert min(total["en"], total["zh"]) >= 100
    assert {lang for lang in ("en", "zh") if right[lang] < 0.95 * total[lang]} == set()


def test_an_answer_has_the_fields_that_are_promised(one: Any) -> None:
    row = one(text="Never round the unit price.", polarity="negative", magnitude=0.9)
    assert list(row) == [
        *("id", "shape", "classifier_confidence", "actionable", "significant"),
        *("verifier_severity", "salience", "outcome", "reason", "experiences"),
    ]
    assert row["experiences"] == [
        {
            "experience_type": "failure_avoidance",
            "evidence_polarity": "negative",
            "skill_eligible": False,
            "status": "active",
            "title": "Avoid: Never round the unit price",
            "guidance": [{"kind": "avoid", "text": "Never round the unit price"}],
        }
    ]


@pytest.mark.parametrize(
    "raw",
    [
        {"verifier": {"reward": 2, "passed": 5, "total": 4}},
        {"verifier": {"passed": 0, "total": 0}},
        {"rating": 1},
        {"verifier": {"reward": 0}},
    ],
)
def test_no_payload_but_a_full_pass_makes_an_anchor(one: Any, raw: dict) -> None:
    text = "Great, stripping the prefix first fixed it."
    row = one(raw={"text": text, **raw}, polarity="negative", r_task=1.0)
    assert not any(experience["skill_eligible"] for experience in row["experiences"])


def test_structured_checks_of_a_payload_teach(one: Any) -> None:
    checks = [{"name": "test_a", "passed": False, "kind": "missing_field", "field": "rows[].code"}]
    row = one(raw={"verifier": {"reward": 0, "checks": checks}})
    assert row["experiences"][0]["guidance"][0]["text"] == "Required field was missing: rows[].code"


def test_what_is_said_implicitly_changes_nothing(one: Any) -> None:
    row = one(text="Never round the unit price.", magnitude=1.0, channel="implicit")
    assert (row["reason"], row["experiences"]) == ("not-explicit", [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ('{"text": "x"}', "id: missing"),
        ('{"id": 1, "polarity": "bad"}', "polarity: not understood"),
        ('{"id": 1, "magnitude": 7}', "magnitude: out of range"),
        ('{"id": 1, "text": 7}', "text: not a text"),
    ],
)
def test_a_row_that_is_not_understood_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 0}\n' + line, encoding="utf-8")
    assert main(["gate", f"input={path}"]) == 2
    error = capsys.readouterr().err
    assert f"{path}:2" in error
    assert message in error


def test_without_input_or_with_two_settings_the_gate_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate"]) == 2
    assert "input: missing" in capsys.readouterr().err
    (tmp_path / "rows.jsonl").write_text('{"id": 1}')
    assert main(["gate", f"input={tmp_path / 'rows.jsonl'}", "memory=[full,off]"]) == 2
    assert "expected one setting" in capsys.readouterr().err


@pytest.mark.parametrize(
    "unit", [" ", "a b ", "不", "do not ", '"', "`x", "1. ", "should be ", "没有"]
)
def test_the_time_of_a_long_text_grows_with_its_length(unit: str) -> None:
    """1 MB against 250 kB: four times as long; a quadratic pattern would take sixteen times."""
    lexicon = load_lexicon(CONF / "lexicon")

    def seconds(characters: int) -> float:
        text = (unit * (characters // len(unit)))[:characters]
        frame = pl.DataFrame({"text_id": [1], "text": [text]})
        started = time.perf_counter()
        understood(frame, lexicon)
        return time.perf_counter() - started

    seconds(1000)
    short = min(seconds(250_000) for _ in range(3))
    long = min(seconds(1_000_000) for _ in range(2))
    assert long < 10 * max(short, 0.01)
