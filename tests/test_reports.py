"""Metrics, worked by hand on tiny runs, and defined for none and for one row."""

from typing import Any

import polars as pl
import pytest

from memos_flow.schemas import (
    TABLES,
    Checks,
    Executions,
    FaultMatrix,
    Lanes,
    PacketItems,
    Policies,
    ShownFaults,
    Skills,
    Trials,
    Variants,
)
from reports import ablation, learning, retrieval
from reports.comparison import compared
from reports.red_lines import red_lines
from reports.summary import injected_experiences
from tests.frames import frame


def _tables(**given: pl.DataFrame) -> dict[str, pl.DataFrame]:
    empty = {name: schema.create_empty() for name, schema in TABLES.items()}
    return {**empty, **given}


def _run(outcomes: dict[str, list[bool | None]], seeds: int = 1) -> dict[str, pl.DataFrame]:
    """Settings with the outcomes of their tasks in order; every seed has them all."""
    lanes, trials = [], []
    for variant_number, (variant, passes) in enumerate(outcomes.items()):
        for seed in range(seeds):
            lane = 10 * variant_number + seed
            lanes.append(
                {
                    "lane_id": lane,
                    "variant_id": variant,
                    "arm_id": "arm",
                    "family": "f",
                    "seed": seed,
                }
            )
            trials += [
                {"lane_id": lane, "step": step, "family": "f", "task": f"t{step}",
                 "task_index": step, "execution_id": 100 * lane + step, "passed": passed,
                 "reward": None if passed is None else float(passed)}
                for step, passed in enumerate(passes)
            ]  # fmt: skip
    executions = [
        {"execution_id": row["execution_id"], "tokens_input": 100, "tokens_output": 20}
        for row in trials
    ]
    return _tables(
        lanes=frame(Lanes, lanes),
        trials=frame(Trials, trials),
        executions=frame(Executions, executions),
    )


def _row(table: pl.DataFrame, variant: str) -> dict[str, Any]:
    return table.filter(pl.col("variant_id") == variant).row(0, named=True)


# Learning.


def test_learning_metrics_by_hand() -> None:
    tables = _run({"full": [True, True, False, True], "off": [True, False, False, True]})
    full = _row(learning.learning_metrics(tables), "full")
    assert full["pass_rate"] == 0.75
    assert full["aulc"] == 0.75
    # After the first task: (1, 0, 1) against (0, 0, 1).
    assert full["forward_transfer"] == pytest.approx(1 / 3)
    # (0.75 - 0.5) / (1 - 0.5)
    assert full["normalised_gain"] == 0.5
    # 4 trials of 120 tokens, 3 of them solved.
    assert full["tokens_per_solved"] == 160
    assert full["cost_per_solved"] is None


def test_unscored_trials_have_both_bounds() -> None:
    row = _row(learning.learning_metrics(_run({"full": [True, None, False, None]})), "full")
    assert (row["low"], row["high"]) == (0.25, 0.75)


def test_a_gain_over_a_perfect_baseline_is_undefined() -> None:
    tables = _run({"full": [True], "off": [True]})
    assert _row(learning.learning_metrics(tables), "full")["normalised_gain"] is None


def test_nothing_solved_costs_nothing_that_can_be_told() -> None:
    assert (
        _row(learning.learning_metrics(_run({"full": [False]})), "full")["tokens_per_solved"]
        is None
    )


def test_paired_differences_by_hand() -> None:
    tables = _run({"full": [True, True, False, True], "off": [True, False, True, False]})
    row = _row(learning.paired_differences(tables), "full")
    assert (row["pairs"], row["helped"], row["harmed"], row["difference"]) == (4, 2, 1, 0.25)
    # Exact McNemar of 2 against 1: 2 * (1 + 3) / 8, at most 1.
    assert row["p"] == 1.0
    assert row["low"] is None


def test_seeds_are_averaged_within_a_pair() -> None:
    tables = _run({"full": [True, True], "off": [False, False]}, seeds=3)
    row = _row(learning.paired_differences(tables), "full")
    assert (row["pairs"], row["helped"]) == (2, 6)
    # Two pairs of difference 1: 2 of 4 sign flips are as far.
    assert row["p"] == 0.5


def test_without_the_baseline_there_are_no_pairs() -> None:
    assert learning.paired_differences(_run({"full": [True]})).is_empty()
    assert learning.paired_differences(_tables()).is_empty()


def test_a_skill_used_is_not_yet_a_skill_that_helped() -> None:
    tables = _run({"full": [True, True, False, False, True]})
    skill = {"lane_id": 0, "skill_id": 1, "created_step": 0, "updated_step": 0}
    used = {"lane_id": 0, "channel": "skill", "item_id": 1, "section": "skills", "fate": "injected"}
    tables["skills"] = frame(Skills, [skill])
    tables["packet_items"] = frame(PacketItems, [used | {"step": step} for step in (1, 2)])
    row = _row(learning.skill_usage(tables), "full")
    # With: pass, fail. Without, once it existed: fail, pass.
    assert (row["injected"], row["pass_with"], row["pass_without"]) == (2, 0.5, 0.5)
    assert row["utility"] == 0


# Retrieval.


def _relevance(ranks: list[int | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "variant_id": "full",
            "lane_id": 1,
            "step": 3,
            "policy_id": range(len(ranks)),
            "about": "x",
            "rank": ranks,
        },
        schema_overrides={"rank": pl.Int32},
    )


def test_ranking_metrics_by_hand() -> None:
    row = retrieval.ranking_metrics(_relevance([2, None, 5]), ks=(1, 3)).row(0, named=True)
    assert (row["hit@1"], row["recall@1"], row["precision@1"]) == (0, 0, 0)
    assert (row["hit@3"], row["recall@3"], row["precision@3"]) == (
        1,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )
    assert row["mrr"] == 0.5
    # (1/log2(3) + 1/log2(6)) / (1 + 1/log2(3) + 1/log2(4))
    assert row["ndcg"] == pytest.approx((0.63093 + 0.38685) / (1 + 0.63093 + 0.5), abs=1e-4)


def test_what_was_not_recalled_stays_in_the_denominator() -> None:
    row = retrieval.ranking_metrics(_relevance([None])).row(0, named=True)
    assert (row["queries"], row["mrr"], row["recall@5"], row["ndcg"]) == (1, 0, 0, 0)


def test_without_a_query_there_is_no_metric() -> None:
    assert retrieval.ranking_metrics(_relevance([])).is_empty()


def test_preventable_failures_of_recorded_trials() -> None:
    tables = _run({"full": [False, False]})
    check = {"passed": False, "kind": "missing_field"}
    tables["checks"] = frame(
        Checks,
        [
            check | {"execution_id": 0, "field": "a"},
            check | {"execution_id": 1, "field": "a"},
            check | {"execution_id": 1, "field": "b", "check_index": 1},
        ],
    )
    held = {"lane_id": 0, "created_step": 0, "check_kind": "missing_field", "field": "a"}
    tables["policies"] = frame(Policies, [held | {"policy_id": 7}])
    row = retrieval.preventable_failures(tables, retrieval.relevance(tables)).row(0, named=True)
    # At the first task nothing was known; at the second `a` was, and it was not in the packet.
    assert (row["failing"], row["preventable"], row["in_packet"], row["share"]) == (3, 1, 0, 0.0)
    told = {"lane_id": 0, "step": 1, "channel": "experience", "item_id": 7, "section": "check"}
    tables["packet_items"] = frame(PacketItems, [told | {"fate": "injected", "rank": 1}])
    row = retrieval.preventable_failures(tables, retrieval.relevance(tables)).row(0, named=True)
    assert (row["in_packet"], row["share"]) == (1, 1.0)


def test_a_lesson_is_in_the_packet_through_its_skill() -> None:
    skill = {"lane_id": 0, "skill_id": 1, "updated_step": 2, "source_policy_ids": [7, 8]}
    told = {"lane_id": 0, "step": 3, "channel": "skill", "item_id": 1, "section": "skills"}
    tables = _tables(
        skills=frame(Skills, [skill]),
        policies=frame(Policies, [{"lane_id": 0, "policy_id": number} for number in (7, 8)]),
        packet_items=frame(
            PacketItems, [told | {"updated_step": 2, "fate": "injected", "rank": 1}]
        ),
    )
    assert injected_experiences(tables).select("item_id", "place").rows() == [(7, 1), (8, 2)]


# Ablation, comparison, red lines.


def test_the_pareto_front_is_what_nothing_beats_in_both() -> None:
    metrics = pl.DataFrame(
        {
            "variant_id": ["a", "b", "c", "d"],
            "recall@5": [0.5, 0.4, 0.9, 0.9],
            "tokens": [10.0, 20.0, 30.0, 40.0],
        }
    )
    assert ablation.pareto(metrics)["variant_id"].to_list() == ["a", "c"]


def test_the_best_of_many_is_said_to_be_unsure() -> None:
    tables = _run({"full": [True, False], "x": [True, True]})
    fault = {"family": "f", "task": "t0", "fault": "step:way", "check_kind": "order", "field": ""}
    tables["fault_matrix"] = frame(FaultMatrix, [fault])
    points = pl.DataFrame({"variant_id": ["x"], "axis": ["1"]})
    told = ablation.recommended(tables, points, ablation.per_variant(tables), "full")
    assert told["setting"] == "x"
    assert told["verdict"] == "not to be told apart from the base by this run"


def test_a_comparison_names_what_got_worse() -> None:
    tables = _run({"full": [True, False, True], "off": [True, True, False]})
    variants = [{"variant_id": name, "judged": False} for name in ("full", "off")]
    tables["variants"] = frame(Variants, variants)
    found = compared(tables, tables, ("full", "off"), 0.8)
    assert found["outcomes"]["number"] == 2
    assert found["regressions"]["trials"] == 1
    same = compared(tables, tables, None, 0.8)
    assert same["outcomes"]["number"] == 0
    assert same["experiences"]["numbers"] == [0, 0]


def test_red_lines_need_full_and_a_setting_without_one() -> None:
    assert red_lines(_tables()).is_empty()


def test_red_lines_count_the_misleading_lines_followed() -> None:
    tables = _run({"full": [True, False], "abs_value": [False, False]})
    tables["variants"] = frame(
        Variants, [{"variant_id": name, "judged": False} for name in ("full", "abs_value")]
    )
    tables["shown_faults"] = frame(
        ShownFaults,
        [
            {"execution_id": 1, "fault": "a:x", "misled": False},
            {"execution_id": 1000, "fault": "a:x", "misled": True},
            {"execution_id": 1000, "fault": "b:x", "misled": False},
            {"execution_id": 1001, "fault": "a:x", "misled": True},
        ],
    )
    (row,) = red_lines(tables).to_dicts()
    assert (row["without"], row["misled"], row["misled_full"]) == ("abs_value", 2, 0)
