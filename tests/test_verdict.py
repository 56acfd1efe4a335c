"""Section 4.1: checks to severity."""

import polars as pl
import pytest

from memos_flow.schemas import Checks, Executions, Trials
from memos_flow.verdict import failures, verdicts
from tests.conftest import Settings
from tests.frames import frame


def _severity(
    settings: Settings, checks: list[dict], execution: dict | None = None, **over: object
) -> float:
    row = {"execution_id": 7, "status": "scored", "reward": 0.0, "passed": False}
    executions = frame(Executions, [{**row, **(execution or {})}]).lazy()
    rows = [
        {"execution_id": 7, "check_index": index, "name": f"c{index}", "check_key": f"c{index}"}
        | check
        for index, check in enumerate(checks)
    ]
    failing = failures(executions, frame(Checks, rows).lazy())
    trial = {"lane_id": 1, "execution_id": 7, "status": "scored", "reward": 0.0, "passed": False}
    trials = frame(
        Trials, [{**trial, **{k: v for k, v in (execution or {}).items() if k in trial}}]
    )
    result = verdicts(trials.lazy(), executions, failing, settings(**over).lazy()).collect()
    return float(result["verifier_severity"][0])


def test_severity_is_the_weight_by_the_share_of_checks_of_the_kind(settings: Settings) -> None:
    checks = [
        {"passed": False, "kind": "missing_field", "field": "cusip"},
        {"passed": False, "kind": "missing_field", "field": "name"},
        {"passed": True},
        {"passed": True},
    ]
    # 0.9 * (0.5 + 0.5 * 2/4)
    assert _severity(settings, checks) == pytest.approx(0.675)


def test_the_worst_kind_counts(settings: Settings) -> None:
    checks = [
        {"passed": False, "kind": "order", "field": "rows[]"},  # 0.6 * 0.75 = 0.45
        {"passed": False, "kind": "type_mismatch", "field": "value"},  # 0.8 * 0.75 = 0.6
    ]
    assert _severity(settings, checks) == pytest.approx(0.6)


def test_a_numeric_deviation_weighs_by_its_relative_error(settings: Settings) -> None:
    check = {"passed": False, "kind": "numeric_deviation", "field": "sum", "relative_error": 0.2}
    # (0.5 + 0.5 * 0.2) * (0.5 + 0.5 * 1/1)
    assert _severity(settings, [check]) == pytest.approx(0.6)
    far = check | {"relative_error": 12.0}
    assert _severity(settings, [far]) == pytest.approx(1.0)


def test_without_failing_checks_the_counts_decide_then_the_reward(settings: Settings) -> None:
    counted = {"checks_passed": 3, "checks_total": 4}
    assert _severity(settings, [], counted) == pytest.approx(0.25)
    assert _severity(settings, [], {"reward": 0.4}) == pytest.approx(0.6)
    assert _severity(settings, [], {"reward": -1.0}) == 1.0


def test_a_pass_has_no_severity_even_with_a_failing_check(settings: Settings) -> None:
    execution = {"passed": True, "reward": 1.0}
    assert _severity(settings, [{"passed": False, "kind": "other"}], execution) == 0.0


def test_a_broken_off_attempt_is_as_severe_as_its_kind(settings: Settings) -> None:
    assert _severity(settings, [], {"status": "agent_timeout"}) == 1.0


def test_weights_are_settings(settings: Settings) -> None:
    weights = dict.fromkeys(settings()["verdict_weights"].struct.fields, 0.0) | {"order": 1.0}
    check = {"passed": False, "kind": "order", "field": "rows[]"}
    assert _severity(settings, [check], verdict_weights=weights) == 1.0


def test_unscored_trials_have_no_verdict(settings: Settings) -> None:
    trial = {"lane_id": 1, "execution_id": 7, "status": "verifier_error"}
    executions = frame(Executions, [{"execution_id": 7, "status": "verifier_error"}]).lazy()
    failing = failures(executions, Checks.create_empty(lazy=True))
    result = verdicts(frame(Trials, [trial]).lazy(), executions, failing, settings().lazy())
    assert result.collect().is_empty()


def test_failing_checks_of_one_kind_and_field_are_one_failure() -> None:
    executions = frame(Executions, [{"execution_id": 7, "status": "scored", "reward": 0.0}]).lazy()
    rows = [
        {"execution_id": 7, "check_index": index, "name": "c", "passed": False, "kind": kind}
        | {"field": field}
        for index, (kind, field) in enumerate(
            [("order", "rows[]"), ("order", "rows[]"), ("order", None), ("other", "rows[]")]
        )
    ]
    result = failures(executions, frame(Checks, rows).lazy()).collect()
    assert result.select("check_kind", "field", "failing", "checks").rows() == [
        ("order", "rows[]", 2, 4),
        ("order", None, 1, 4),
        ("other", "rows[]", 1, 4),
    ]
    assert result["check_kind"].dtype == pl.Enum(Checks.columns()["kind"].dtype.categories)
