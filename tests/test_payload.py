"""Section 4.1: what a verifier's payload says, and what it does not."""

from typing import Any

import pytest

from harness.payload import payload_of


@pytest.mark.parametrize(
    ("raw", "outcome", "severity"),
    [
        ({"reward": 1}, "pass", 0.0),
        ({"score": "1.0"}, "pass", 0.0),
        ({"reward": 0.9999999999}, "pass", 0.0),
        ({"reward": 0.99}, "fail", pytest.approx(0.01)),
        ({"reward": -1}, "fail", 1.0),
        ({"verifier": {"passed": 4, "total": 4}}, "pass", 0.0),
        ({"verifier": {"passed": "1", "total": "4"}}, "fail", 0.75),
        ({"verifier": {"passed": True, "total": 1}}, "pass", 0.0),
        ({"verifier": {"passed": False}}, "fail", 1.0),
        ({"verdict": "PASS"}, "pass", 0.0),
        ({"verdict": "fail", "reward": 0.25}, "fail", 0.75),
        ('{"verifier": {"reward": 0, "passed": 1, "total": 4}}', "fail", 0.75),
        ({"verifier": '{"reward": "0.5"}'}, "fail", 0.5),
        # Nulls are absent.
        ({"verifier": {"reward": 1, "passed": None, "total": None}}, "pass", 0.0),
        ({"verifier": {"reward": None}}, None, None),
        # Contradictions are no verdict.
        ({"passed": 5, "total": 4, "reward": 2}, "none", None),
        ({"passed": 0, "total": 0}, "none", None),
        ({"reward": 1, "passed": 2, "total": 4}, "none", None),
        ({"reward": 0, "verdict": "pass"}, "none", None),
        # A rating has no scale, a count without its total no meaning.
        ({"rating": 5}, None, None),
        ({"passed": 4}, None, None),
        # Of several rewards `reward` counts, else the only one, else all must be full.
        ({"rewards": {"reward": 1, "style": 0}}, "pass", 0.0),
        ({"rewards": {"style": 1}}, "pass", 0.0),
        ({"rewards": {"style": 1, "facts": 0.5}}, "fail", 1.0),
        ({"format_reward": 1, "facts_reward": 1}, "pass", 0.0),
        ("just words", None, None),
        ("", None, None),
        (None, None, None),
        ([1, 2], None, None),
        ({"reward": float("nan")}, None, None),
        ({"reward": "a lot"}, None, None),
    ],
)
def test_the_outcome_and_how_bad_it_is(raw: Any, outcome: str | None, severity: Any) -> None:
    payload = payload_of(raw)
    assert (payload.outcome, payload.severity) == (outcome, severity)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"text": "expected list", "verifier": {"reward": 0}}, "expected list"),
        ({"verifier": {"reward": 0, "message": "too short"}}, "too short"),
        ("just words", "just words"),
        ({"text": None}, None),
        ({"text": 7}, None),
    ],
)
def test_the_words_of_a_payload(raw: Any, text: str | None) -> None:
    assert payload_of(raw).text == text
