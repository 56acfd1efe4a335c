"""The T items of section 4.11, each as a plain story of one lane."""

from typing import Any

import polars as pl
import pytest

from memos_flow.wording import Wording
from tests.conftest import Settings
from tests.lane import Lane

FORBIDS = {"text": "Do not reuse the schema of the previous answer.", "polarity": "negative"}
MISMATCH = {"text": "Expected dates as 2024-03-31, but the answer has 03/31/2024."}
CHECK = {"kind": "missing_field", "field": "rows[].cusip", "name": "rows", "check_key": "rows"}
STEPS = ("parse all rows", "sum by cusip", "write answers.json")


@pytest.fixture
def lane(wording: Wording, settings: Settings) -> Lane:
    """A lane of 13F tasks whose similar experiences are one skill."""
    return Lane(wording, settings(skills_cluster_similarity=0.2), domain="sec13f")


def _types(lane: Lane) -> list[str]:
    return lane.experiences["experience_type"].cast(pl.String).to_list()


def _fates(tables: dict[str, pl.DataFrame], channel: str) -> list[Any]:
    return tables["packet_items"].filter(pl.col("channel") == channel)["fate"].to_list()


def test_t1_failed_feedback_becomes_an_avoidance(lane: Lane) -> None:
    lane.live(passed=False, remarks=[FORBIDS])
    assert _types(lane) == ["failure_avoidance"]


@pytest.mark.parametrize("how", [{"remarks": [MISMATCH]}, {"checks": [CHECK]}])
def test_t2_a_mismatch_becomes_a_repair(lane: Lane, how: dict[str, Any]) -> None:
    lane.live(passed=False, **how)
    assert _types(lane) == ["repair_instruction"]


def test_t3_a_success_becomes_a_pattern(lane: Lane) -> None:
    lane.live(passed=True, actions=STEPS)
    assert _types(lane) == ["success_pattern"]


def test_t4_a_negative_trace_alone_becomes_nothing(lane: Lane) -> None:
    tables = lane.live(passed=False, actions=STEPS, remarks=[{"text": "wrong"}])
    assert tables["traces"]["value"].max() < 0
    assert lane.experiences.is_empty()


def test_t5_salient_blame_is_recalled_and_seeds_no_skill(lane: Lane) -> None:
    lane.live(passed=False, remarks=[FORBIDS | {"magnitude": 1.0}])
    tables = lane.live(passed=True)
    assert _fates(tables, "experience") == ["injected"]
    assert not lane.experiences["skill_eligible"].any()


def test_t6_avoidance_alone_has_no_anchor(lane: Lane) -> None:
    tables = lane.live(passed=False, remarks=[FORBIDS])
    assert tables["eligibility"]["decision"].to_list() == ["no-success-anchor"]
    assert tables["skills"].is_empty()


def test_t7_success_and_avoidance_make_a_skill_with_the_avoid(lane: Lane) -> None:
    lane.live(passed=False, remarks=[FORBIDS])
    tables = lane.live(passed=True, actions=STEPS)
    (text,) = lane.told(tables, "skills")
    assert text == (
        "parse all rows\nsum by cusip\nwrite answers.json\n"
        "Avoid: Do not reuse the schema of the previous answer"
    )


def test_t8_a_source_of_a_recalled_skill_is_dropped(lane: Lane) -> None:
    lane.live(passed=False, remarks=[FORBIDS])
    lane.live(passed=True, actions=STEPS)
    tables = lane.live(passed=True, actions=STEPS)
    assert _fates(tables, "skill") == ["injected"]
    assert _fates(tables, "experience") == ["covered-by-skill", "covered-by-skill"]


def test_t9_of_a_newer_source_only_what_is_new_is_told(
    wording: Wording, settings: Settings
) -> None:
    """A skill is rebuilt in the step in which a source changes, unless skills are off by then."""
    lane = Lane(wording, settings(skills_cluster_similarity=0.2), domain="sec13f")
    lane.live(passed=False, remarks=[FORBIDS])
    lane.live(passed=True, actions=STEPS)
    off = settings(skills_enabled=False, merge_similarity=-1.0, recall_experiences=9)
    on, lane.rules = lane.rules, off
    lane.live(passed=False, remarks=[FORBIDS | {"text": "Do not write the keys of another task."}])
    lane.rules = on
    (packet,) = lane.told(lane.live(passed=True))
    experiences = packet.split("## Relevant experiences")[1].split("## ")[0]
    assert "Do not write the keys of another task" in experiences
    assert "Do not reuse the schema" not in experiences


def test_t10_two_experiences_of_13f_tasks_form_a_cognition(lane: Lane) -> None:
    lane.live(passed=False, checks=[CHECK])
    tables = lane.live(passed=False, checks=[CHECK | {"field": "total", "kind": "type_mismatch"}])
    assert tables["world_models"]["domain"].to_list() == ["sec13f"]
    (text,) = lane.told(tables, "world_models")
    assert text == (
        "Required: rows[].cusip must be there\nRequired: total has a required type or format"
    )


def test_t11_a_failure_is_recalled_at_the_start_of_the_next_task(lane: Lane) -> None:
    lane.live(passed=False, remarks=[FORBIDS])
    (packet,) = lane.told(lane.live(passed=True))
    assert "Avoid:\n- Do not reuse the schema of the previous answer" in packet
