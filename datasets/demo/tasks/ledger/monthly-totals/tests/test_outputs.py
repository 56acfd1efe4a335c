import json
from pathlib import Path

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())


def load_answers():
    return json.loads(Path("answers.json").read_text())


def test_fields():
    answers = load_answers()
    for field in EXPECTED:
        assert field in answers, f"Missing field {field}"


def test_totals():
    answers = load_answers()
    assert answers["totals"] == EXPECTED["totals"]


def test_months():
    answers = load_answers()
    assert answers["months"] == EXPECTED["months"]
