import json
from pathlib import Path

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())


def load_answers():
    return json.loads(Path("answers.json").read_text())


def test_fields():
    answers = load_answers()
    for field in EXPECTED:
        assert field in answers, f"Missing field {field}"


def test_balances():
    answers = load_answers()
    assert answers["balances"] == EXPECTED["balances"]


def test_largest_account():
    answers = load_answers()
    assert answers["largest_account"] == EXPECTED["largest_account"]
