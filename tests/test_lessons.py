"""Sections 4.2 and 4.3: what becomes a lesson, what counts, and what kind of experience it is."""

from typing import Any

import polars as pl
import pytest

from memos_flow.drafts import drafts, typed
from memos_flow.lessons import lessons
from memos_flow.library import Library
from memos_flow.schemas import Checks, Episodes, Executions, Feedback, Policies, Trajectories
from memos_flow.texts import content_id, texts_frame
from memos_flow.verdict import failures
from memos_flow.wording import Wording
from tests.conftest import Settings
from tests.frames import frame


class Gate:
    """One feedback on one episode through lessons and types."""

    def __init__(self, library: Library, wording: Wording, settings: Settings) -> None:
        self.library, self.wording, self.settings = library, wording, settings

    def __call__(
        self,
        text: str | None,
        outcome: str = "none",
        checks: tuple[dict[str, Any], ...] = (),
        actions: tuple[str, ...] = (),
        r_task: float = 0.0,
        settings: dict[str, Any] | None = None,
        **feedback: Any,
    ) -> pl.DataFrame:
        self.library.add(texts_frame([*([text] if text else []), *actions]))
        row = {"lane_id": 1, "outcome": outcome, "magnitude": 0.9, "execution_id": 7}
        mood = {"pass": "positive", "fail": "negative", "none": "neutral"}[outcome]
        row |= {"text_id": content_id(text) if text else None, "polarity": mood} | feedback
        ruled = {"outcome": outcome, "outcome_source": "payload" if outcome != "none" else "none"}
        episode = {"lane_id": 1, "r_task": r_task} | ruled
        execution = {"execution_id": 7, "status": "scored", "reward": 0.0, "passed": False}
        rows = [
            {"execution_id": 7, "check_index": number, "name": "test_it", "passed": False} | check
            for number, check in enumerate(checks)
        ]
        steps = [
            {"execution_id": 7, "position": number, "action_text_id": content_id(action)}
            for number, action in enumerate(actions)
        ]
        failing = failures(frame(Executions, [execution]).lazy(), frame(Checks, rows).lazy())
        self.rules = self.settings(**(settings or {})).lazy()
        return typed(
            lessons(
                frame(Feedback, [row]).lazy(),
                frame(Episodes, [episode]).lazy(),
                failing,
                frame(Trajectories, steps).lazy(),
                self.rules,
                self.library,
                self.wording,
            )
        ).collect()


@pytest.fixture
def gate(library: Library, wording: Wording, settings: Settings) -> Gate:
    return Gate(library, wording, settings)


MISSING = {"kind": "missing_field", "field": "rows[].code", "expected": "secret value 42"}


@pytest.mark.parametrize(
    ("text", "outcome", "kind", "polarity"),
    [
        (
            "This is correct; the parser handled both encodings.",
            "pass",
            "success_pattern",
            "positive",
        ),
        ("All passed but the total should use Decimal.", "pass", "repair_instruction", "neutral"),
        ("Do not reuse the old schema.", "fail", "failure_avoidance", "negative"),
        ("不要沿用旧的表结构", "fail", "failure_avoidance", "negative"),
        ("The total must include refunds.", "fail", "repair_instruction", "negative"),
        ("The prefix made 31 rows invisible.", "fail", "failure_avoidance", "negative"),
        ("Use lxml instead of regex.", "fail", "preference", "neutral"),
        ("Use lxml instead of regex.", "pass", "preference", "neutral"),
        ("Never sort by name.", "none", "failure_avoidance", "negative"),
        ("The total must include refunds.", "none", "repair_instruction", "neutral"),
        ("Great, the parser handled both encodings.", "none", "success_pattern", "positive"),
    ],
)
def test_outcome_and_sign_decide_the_type(
    gate: Gate, text: str, outcome: str, kind: str, polarity: str
) -> None:
    kept = gate(text, outcome).filter(pl.col("dropped").is_null())
    assert set(kept.select("experience_type", "evidence_polarity").rows()) == {(kind, polarity)}


def test_praise_on_a_failed_trial_becomes_nothing(gate: Gate) -> None:
    result = gate("Great, the parser handled both encodings.", "fail")
    assert result["dropped"].to_list() == ["praise-on-failure"]


@pytest.mark.parametrize(
    ("text", "over", "reason"),
    [
        ("wrong", {}, "not-actionable"),
        ("不对", {}, "not-actionable"),
        (None, {}, "no-text"),
        ("The total must include refunds.", {"channel": "implicit"}, "not-explicit"),
        ("The total must include refunds.", {"duplicate": True}, "duplicate"),
        ("The total must include refunds.", {"quarantine": "attack"}, "attack"),
    ],
)
def test_what_does_not_count_keeps_its_reason(
    gate: Gate, text: str | None, over: dict[str, Any], reason: str
) -> None:
    assert gate(text, "fail", **over)["dropped"].to_list() == [reason]


def test_any_of_four_signals_is_enough_and_none_is_too_little(gate: Gate) -> None:
    text = "Run the schema check before you write."  # an instruction: confidence 0.55
    low = {"magnitude": 0.1}
    assert gate(text, **low)["dropped"].to_list() == ["below-significance"]
    assert gate(text, magnitude=0.5)["significant"].all()
    assert gate(text, r_task=-0.5, **low)["significant"].all()
    assert gate(text, verifier_severity=0.5, **low)["significant"].all()
    assert gate(text, settings={"gate_theta_confidence": 0.55}, **low)["significant"].all()


def test_salience_is_the_largest_signal(gate: Gate) -> None:
    row = gate("The total must include refunds.", "fail", r_task=-0.8, magnitude=0.3)
    assert row["salience"].to_list() == [0.8]


def test_a_terse_log_still_teaches_one_lesson_per_kind_and_field(gate: Gate) -> None:
    checks = (MISSING, MISSING, {"kind": "order", "field": "rows[]"}, {"kind": "other"})
    result = gate(None, "fail", checks, source="verifier")
    assert result.select("check_kind", "field", "dropped").rows() == [
        ("missing_field", "rows[].code", None),
        ("order", "rows[]", None),
        ("other", None, "not-actionable"),
    ]


def test_what_a_check_expected_is_told_only_on_demand(gate: Gate) -> None:
    def texts(**settings: Any) -> str:
        rows = gate(None, "fail", (MISSING,), source="verifier", settings=settings)
        known = dict(gate.library.texts.collect().iter_rows())
        return known[rows["text_id"][0]]

    assert "secret value 42" not in texts()
    assert "secret value 42" in texts(feedback_reveal_expected=True)


def test_a_silent_pass_takes_its_lesson_from_what_was_done(gate: Gate) -> None:
    verified = {"source": "verifier", "polarity": "positive"}
    result = gate(None, "pass", actions=("read both", "join by id"), **verified)
    known = dict(gate.library.texts.collect().iter_rows())
    assert known[result["text_id"][0]] == "read both; then join by id"
    assert result["experience_type"].to_list() == ["success_pattern"]
    assert gate(None, "pass", **verified)["dropped"].to_list() == ["no-traces"]


def test_without_splitting_a_feedback_is_one_lesson(gate: Gate) -> None:
    text = "The total must include refunds. Never sort by name."
    assert gate(text, "fail", (MISSING,)).height == 3
    assert gate(text, "fail", (MISSING,), settings={"feedback_split": "whole"}).height == 1


def test_a_switched_off_path_learns_nothing(gate: Gate) -> None:
    result = gate("Never sort by name.", "fail", settings={"feedback_enabled": False})
    assert result["dropped"].to_list() == ["feedback-path-off"]


def test_a_rising_threshold_never_lets_more_through(gate: Gate) -> None:
    text = "Run the schema check before you write. The total must include refunds."
    passed = [
        gate(text, "fail", magnitude=0.1, settings={"gate_theta_confidence": theta})[
            "significant"
        ].sum()
        for theta in (0.0, 0.5, 0.6, 0.7, 0.71, 1.01)
    ]
    assert passed == sorted(passed, reverse=True)
    assert (passed[0], passed[-1]) == (2, 0)


def _drafted(gate: Gate, result: pl.DataFrame) -> dict[str, Any]:
    tasks = pl.LazyFrame(
        {"lane_id": [1], "episode_step": [0], "family": ["f"], "task": ["t"]}
        | {"file_names": [["a.json"]], "domain": [None], "tool": [None], "query_text_id": [1]},
        schema_overrides={"episode_step": pl.Int32, "domain": pl.String, "tool": pl.String},
    )
    return drafts(result.lazy(), tasks, gate.rules).collect().row(0, named=True)


def test_only_a_success_may_seed_a_skill(gate: Gate) -> None:
    worked = gate("Great, the parser handled both encodings.", "pass", r_task=1.0)
    draft = _drafted(gate, worked)
    assert (draft["skill_eligible"], draft["status"], draft["gain"]) == (True, "active", 1.0)
    failed = _drafted(gate, gate("Never sort by name.", "fail", r_task=-1.0))
    assert (failed["skill_eligible"], failed["gain"]) == (False, 0.0)
    assert failed["directive_sign"] == "do_not"


def test_an_unsure_lesson_without_success_is_a_candidate(gate: Gate) -> None:
    unsure = _drafted(gate, gate("Run the schema check before you write.", "fail"))
    assert (unsure["confidence"], unsure["status"]) == (0.55, "candidate")
    sure = _drafted(gate, gate(None, "fail", (MISSING,), source="verifier"))
    assert (sure["confidence"], sure["status"]) == (0.9, "active")


def test_an_illegal_anchor_does_not_validate() -> None:
    row = {"lane_id": 1, "policy_id": 0, "source_feedback_ids": [1]}
    assert Policies.is_valid(frame(Policies, [row]))
    assert not Policies.is_valid(frame(Policies, [row | {"skill_eligible": True}]))
    unvalidated = {"experience_type": "repair_validated", "evidence_polarity": "mixed"}
    assert not Policies.is_valid(frame(Policies, [row | unvalidated]))
