"""Section 4.4: a repair is confirmed only by a passed trial that carried and exercised it."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest

from memos_flow.injection import carried
from memos_flow.schemas import Checks, PacketItems, Policies, Skills, Trials
from memos_flow.texts import content_id
from memos_flow.validation import validated, validations
from tests.conftest import Plane, Settings
from tests.frames import frame

ANGLES = {"repair": 0.0, "same": 20.0, "other": 90.0}
REPAIR = {
    "lane_id": 1,
    "policy_id": 0,
    "lesson_text_id": content_id("repair"),
    "check_key": "test_rows",
    "check_kind": "order",
    "field": "rows[]",
    "confidence": 0.6,
    "source_feedback_ids": [0],
}
CHECK = {"execution_id": 7, "name": "test_rows", "check_key": "test_rows", "field": "rows[]"}
CARRIED = {"lane_id": 1, "step": 1, "channel": "experience", "item_id": 0, "fate": "injected"}


@pytest.fixture
def confirm(plane: Plane, settings: Settings) -> Callable[..., pl.DataFrame]:
    library = plane(ANGLES)

    def run(
        experience: Mapping[str, Any] = REPAIR,
        checks: tuple[Mapping[str, Any], ...] = (CHECK | {"passed": True},),
        items: tuple[Mapping[str, Any], ...] = (CARRIED,),
        passed: bool = True,
        success: str | None = None,
        observational: bool = False,
        skill: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        trial = {"lane_id": 1, "step": 1, "execution_id": 7, "passed": passed, "reward": 1.0}
        draft = {"lane_id": 1, "policy_id": 1_000_000, "experience_type": "success_pattern"}
        draft["lesson_text_id"] = content_id(success or "other")
        drafts = frame(Policies, [draft] if success else []).with_columns(lesson_id="policy_id")
        rules = settings(observational=observational).lazy()
        policies = frame(Policies, [experience]).lazy()
        confirmed = validations(
            policies,
            drafts.lazy(),
            frame(Trials, [trial]).lazy(),
            frame(Checks, list(checks)).lazy(),
            carried(frame(PacketItems, list(items)).lazy()),
            frame(Skills, [skill] if skill else []).lazy(),
            rules,
            library,
        )
        rewards = pl.LazyFrame({"lane_id": [1], "r_task": [0.8]})
        return validated(policies, confirmed, rewards, rules).collect()

    return run


def test_the_check_it_was_learned_from_passes_again(confirm: Callable[..., pl.DataFrame]) -> None:
    row = confirm().row(0, named=True)
    assert (row["experience_type"], row["evidence_polarity"]) == ("repair_validated", "mixed")
    assert (row["skill_eligible"], row["validations"], row["updated_step"]) == (True, 1, 1)
    assert row["confidence"] == pytest.approx(0.8)  # halfway from 0.6 to 1
    assert row["gain"] == pytest.approx(0.4)  # half of the validating episode's 0.8


@pytest.mark.parametrize(
    "missing",
    [
        {"passed": False},
        {"items": ()},
        {"items": (CARRIED | {"fate": "over-budget"},)},
        {"checks": ()},
        {"checks": (CHECK | {"passed": True, "field": "rows[].id"},)},
        {"checks": (CHECK | {"passed": True, "check_key": "test_else"},)},
        {"checks": (CHECK | {"passed": False, "kind": "order"},)},
        {"experience": REPAIR | {"experience_type": "preference"}},
    ],
)
def test_without_pass_packet_or_exercise_nothing_is_confirmed(
    confirm: Callable[..., pl.DataFrame], missing: dict[str, Any]
) -> None:
    assert confirm(**missing).is_empty()


def test_a_line_of_a_recalled_skill_counts_as_carried(confirm: Callable[..., pl.DataFrame]) -> None:
    skill = {"lane_id": 1, "skill_id": 5, "source_policy_ids": [0], "anchor_policy_ids": []}
    through = (CARRIED | {"channel": "skill", "item_id": 5},)
    assert confirm(items=through, skill=skill).height == 1


def test_a_lesson_without_a_check_is_confirmed_by_a_similar_success(
    confirm: Callable[..., pl.DataFrame],
) -> None:
    spoken = REPAIR | {"check_key": None, "check_kind": None, "field": None}
    assert confirm(spoken, success="same").height == 1
    assert confirm(spoken, success="other").is_empty()
    assert confirm(spoken | {"directive_sign": "do_not"}, success="same").is_empty()


def test_an_avoidance_stays_what_it_is_and_counts(confirm: Callable[..., pl.DataFrame]) -> None:
    row = confirm(REPAIR | {"experience_type": "failure_avoidance"}).row(0, named=True)
    assert (row["experience_type"], row["skill_eligible"], row["validations"]) == (
        "failure_avoidance",
        False,
        1,
    )


def test_a_replay_confirms_observationally(confirm: Callable[..., pl.DataFrame]) -> None:
    assert confirm(observational=True)["observational_validations"].to_list() == [1]
    assert confirm()["observational_validations"].to_list() == [0]
