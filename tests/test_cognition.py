"""Section 4.7: what several experiences of one domain say about their environment."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from memos_flow.cognition import cognition
from memos_flow.library import Library
from memos_flow.schemas import Policies, WorldModels
from memos_flow.texts import content_id
from memos_flow.wording import Wording
from tests.conftest import Plane, Settings
from tests.frames import frame

THOUSANDS = "The values are in thousands before 2023."
LATIN = "The file is encoded in latin-1."
DOLLARS = "单位是千美元。"
STRING = "cusip must be a string."
SORT = "Sort the rows by value."
UNSORTED = "Do not sort the rows by value."
NEVER = "You must never sort by value."
WORKED = "The parser handled all holdings and matched the verifier."
BROKEN = "Expected a list, but the answer had an object."
UNITS = "You used the wrong units."
MISSING = "The file was missing."
#: Lessons by angle. Of two at right angles each has cosine 0.71 with their mean.
ANGLES = {
    THOUSANDS: 0.0,
    LATIN: 0.0,
    DOLLARS: 90.0,
    STRING: 0.0,
    SORT: 0.0,
    UNSORTED: 0.0,
    NEVER: 0.0,
    WORKED: 0.0,
    BROKEN: 0.0,
    UNITS: 0.0,
    MISSING: 0.0,
    "Wrong order: rows[]": 90.0,
    "Number outside the tolerance: total": 90.0,
    "Failed check: legacy": 0.0,
} | {f"Column {number} is encoded in latin-1.": 0.0 for number in range(9)}
STRICT = 0.9


@pytest.fixture
def texts(plane: Plane) -> Library:
    return plane(ANGLES)


def _experience(policy_id: int, text: str, **over: Any) -> dict:
    """An avoidance of domain `d`, confident enough."""
    return {
        "lane_id": 1,
        "policy_id": policy_id,
        "lesson_text_id": content_id(text),
        "experience_type": "failure_avoidance",
        "confidence": 0.8,
        "domain": "d",
    } | over


def _checked(policy_id: int, text: str, kind: str, field: str | None, **over: Any) -> dict:
    found = {"experience_type": "repair_instruction", "check_kind": kind, "field": field}
    return _experience(policy_id, text, **found, **over)


class Bench:
    """The stage, on experiences written by hand; by default all of them have changed."""

    def __init__(self, texts: Library, settings: Settings, wording: Wording) -> None:
        self._texts, self._settings, self._wording = texts, settings, wording

    def step(
        self,
        experiences: Sequence[dict],
        known: Sequence[dict] = (),
        *,
        step: int = 5,
        changed: Sequence[dict] | None = None,
        lanes: Sequence[int] = (1,),
        **over: Any,
    ) -> list[dict[str, Any]]:
        rules = self._settings(lanes, **{"cognition_cluster_similarity": STRICT, **over}).lazy()
        starts = pl.LazyFrame(
            {"lane_id": list(lanes), "step": [step] * len(lanes)},
            schema={"lane_id": pl.Int64, "step": pl.Int32},
        )
        models = cognition(
            frame(Policies, experiences).lazy(),
            frame(Policies, experiences if changed is None else changed).lazy(),
            frame(WorldModels, known).lazy(),
            starts,
            rules,
            self._texts,
            self._wording,
        )
        return WorldModels.validate(models.collect()).to_dicts()

    def said(self, text_id: int) -> str:
        found = self._texts.texts.filter(pl.col("text_id") == text_id).collect()
        return found["text"].item()

    def text(self, experiences: Sequence[dict], **over: Any) -> list[str]:
        [row] = self.step(experiences, **over)
        return self.said(row["text_id"]).split("\n")


@pytest.fixture
def bench(texts: Library, settings: Settings, wording: Wording) -> Bench:
    return Bench(texts, settings, wording)


def _statement(policy_id: int, text: str) -> dict[str, int]:
    return {"text_id": content_id(text), "policy_id": policy_id}


# What forms a cognition


def test_two_experiences_of_a_domain_form_a_cognition(bench: Bench) -> None:
    [row] = bench.step([_experience(1, THOUSANDS), _experience(2, LATIN)])
    assert (row["domain"], row["tool"], row["status"]) == ("d", None, "active")
    assert (row["world_model_id"], row["version"]) == (5_000_000, 1)
    assert (row["created_step"], row["updated_step"]) == (5, 5)
    assert row["source_policy_ids"] == [1, 2]
    assert bench.said(row["title_text_id"]) == "What d tasks are like"


def test_one_experience_forms_none(bench: Bench) -> None:
    assert bench.step([_experience(1, THOUSANDS)]) == []


def test_as_many_are_needed_as_the_variant_says(bench: Bench) -> None:
    three = [_experience(policy_id, THOUSANDS) for policy_id in (1, 2, 3)]
    assert bench.step(three[:2], cognition_min_experiences=3) == []
    [row] = bench.step(three, cognition_min_experiences=3)
    assert row["source_policy_ids"] == [1, 2, 3]


@pytest.mark.parametrize("over", [{"status": "candidate"}, {"status": "archived"}])
def test_only_active_experiences_take_part(bench: Bench, over: dict[str, Any]) -> None:
    assert bench.step([_experience(1, THOUSANDS), _experience(2, LATIN, **over)]) == []


def test_the_confidence_of_each_may_just_reach_the_threshold(bench: Bench) -> None:
    first = _experience(1, THOUSANDS)
    assert bench.step([first, _experience(2, LATIN, confidence=0.44)]) == []
    assert len(bench.step([first, _experience(2, LATIN, confidence=0.45)])) == 1


@pytest.mark.parametrize(
    ("kind", "polarity"),
    [
        ("success_pattern", "positive"),
        ("repair_validated", "mixed"),
        ("preference", "neutral"),
        ("repair_instruction", "negative"),
    ],
)
def test_experiences_of_any_polarity_take_part(bench: Bench, kind: str, polarity: str) -> None:
    other = _experience(2, SORT, experience_type=kind, evidence_polarity=polarity)
    [row] = bench.step([_experience(1, THOUSANDS), other])
    assert row["source_policy_ids"] == [1, 2]


def test_steps_to_do_alone_form_none(bench: Bench) -> None:
    assert bench.step([_experience(1, SORT), _experience(2, UNSORTED)]) == []


def test_behaviours_alone_form_none(bench: Bench) -> None:
    worked = {"experience_type": "success_pattern", "evidence_polarity": "positive"}
    assert bench.step([_experience(1, WORKED, **worked), _experience(2, WORKED, **worked)]) == []


@pytest.mark.parametrize("tool", [None, "t"])
def test_untagged_experiences_form_none(bench: Bench, tool: str | None) -> None:
    untagged = {"domain": None, "tool": tool}
    experiences = [_experience(1, THOUSANDS, **untagged), _experience(2, LATIN, **untagged)]
    assert bench.step(experiences) == []


@pytest.mark.parametrize("fault", [UNITS, MISSING])
def test_what_was_wrong_with_an_attempt_is_no_fact(bench: Bench, fault: str) -> None:
    assert bench.step([_experience(1, fault), _experience(2, SORT)]) == []


def test_domains_are_apart(bench: Bench) -> None:
    assert bench.step([_experience(1, THOUSANDS), _experience(2, LATIN, domain="e")]) == []


def test_the_tools_of_a_domain_are_apart(bench: Bench) -> None:
    experiences = [
        _experience(1, THOUSANDS, tool="t"),
        _experience(2, LATIN, tool="t"),
        _experience(3, THOUSANDS, tool="u"),
        _experience(4, LATIN),
    ]
    [row] = bench.step(experiences)
    assert (row["tool"], row["source_policy_ids"]) == ("t", [1, 2])


def test_every_domain_key_has_an_id_of_its_own(bench: Bench) -> None:
    experiences = [
        _experience(2 * place + number, LATIN, domain=domain, tool=tool)
        for place, (domain, tool) in enumerate([("e", None), ("d", "t"), ("d", None)])
        for number in (1, 2)
    ]
    assert [
        (row["world_model_id"], row["domain"], row["tool"]) for row in bench.step(experiences)
    ] == [(5_000_000, "d", None), (5_000_001, "d", "t"), (5_000_002, "e", None)]


def test_lanes_are_apart(bench: Bench) -> None:
    experiences = [
        _experience(1, THOUSANDS),
        _experience(2, LATIN, lane_id=2),
        _experience(3, STRING, lane_id=2),
    ]
    rows = bench.step(experiences, lanes=(1, 2))
    assert [(row["lane_id"], row["world_model_id"], row["source_policy_ids"]) for row in rows] == [
        (2, 5_000_000, [2, 3])
    ]


def test_none_is_formed_where_cognition_is_switched_off(bench: Bench) -> None:
    experiences = [_experience(1, THOUSANDS), _experience(2, LATIN)]
    assert bench.step(experiences, cognition_enabled=False) == []


# Strict and loose


def test_similar_experiences_are_strict_and_not_dampened(bench: Bench) -> None:
    experiences = [
        _experience(1, THOUSANDS, confidence=0.6),
        _experience(2, LATIN, confidence=0.9),
    ]
    [row] = bench.step(experiences)
    assert (row["loose"], row["cohesion"]) == (False, pytest.approx(1))
    assert row["confidence"] == pytest.approx(0.75)


def test_a_strict_cluster_leaves_the_others_out(bench: Bench) -> None:
    # The mean of (1, 0) three times and (0, 1) once: cosines 3 / sqrt(10) and 1 / sqrt(10).
    experiences = [
        _experience(1, THOUSANDS, confidence=0.5),
        _experience(2, LATIN, confidence=0.6),
        _experience(3, STRING, confidence=0.7),
        _experience(4, DOLLARS, confidence=1.0),
    ]
    [row] = bench.step(experiences)
    assert (row["loose"], row["source_policy_ids"]) == (False, [1, 2, 3])
    assert row["cohesion"] == pytest.approx(0.948683, abs=1e-6)
    assert row["confidence"] == pytest.approx(0.6)


def test_the_whole_bucket_is_loose_and_dampened(bench: Bench) -> None:
    experiences = [
        _experience(1, THOUSANDS, confidence=0.6),
        _experience(2, DOLLARS, confidence=0.9),
    ]
    [row] = bench.step(experiences, cognition_loose_damping=0.5)
    assert (row["loose"], row["source_policy_ids"]) == (True, [1, 2])
    assert row["cohesion"] == pytest.approx(0.707107, abs=1e-6)
    assert row["confidence"] == pytest.approx(0.375)


def test_the_threshold_is_the_variants(bench: Bench) -> None:
    [row] = bench.step(
        [_experience(1, THOUSANDS), _experience(2, DOLLARS)], cognition_cluster_similarity=0.7
    )
    assert (row["loose"], row["confidence"]) == (False, pytest.approx(0.8))


def test_fewer_similar_ones_than_needed_are_loose(bench: Bench) -> None:
    # 3 / sqrt(10) = 0.95 is close enough, but only for three.
    experiences = [_experience(number, LATIN) for number in (1, 2, 3)] + [_experience(4, DOLLARS)]
    [row] = bench.step(experiences, cognition_min_experiences=4)
    assert (row["loose"], row["source_policy_ids"]) == (True, [1, 2, 3, 4])


# What a cognition says


def test_statements_are_told_apart_each_with_its_source(bench: Bench) -> None:
    worked = {"experience_type": "success_pattern", "evidence_polarity": "positive"}
    [row] = bench.step(
        [
            _experience(1, STRING),
            _experience(2, THOUSANDS),
            _experience(3, WORKED, **worked),
            _experience(4, BROKEN),
            _experience(5, SORT),
        ]
    )
    assert row["facts"] == [_statement(2, THOUSANDS)]
    assert row["behaviours"] == [_statement(3, WORKED)]
    assert row["constraints"] == [_statement(1, STRING), _statement(4, BROKEN)]
    assert row["source_policy_ids"] == [1, 2, 3, 4, 5]
    assert bench.said(row["text_id"]).split("\n") == [
        THOUSANDS,
        f"Seen: {WORKED}",
        f"Required: {STRING}",
        f"Required: {BROKEN}",
    ]


def test_what_worked_is_a_behaviour_of_a_success_only(bench: Bench) -> None:
    [row] = bench.step([_experience(1, THOUSANDS), _experience(2, WORKED)])
    assert row["behaviours"] == []


@pytest.mark.parametrize("order", [SORT, UNSORTED, NEVER])
def test_an_order_is_not_told(bench: Bench, order: str) -> None:
    assert bench.text([_experience(1, THOUSANDS), _experience(2, order)]) == [THOUSANDS]


def test_a_fact_is_told_once_and_all_who_state_it_are_its_sources(bench: Bench) -> None:
    [row] = bench.step([_experience(1, THOUSANDS), _experience(2, THOUSANDS)])
    assert row["facts"] == [_statement(1, THOUSANDS), _statement(2, THOUSANDS)]
    assert bench.said(row["text_id"]) == THOUSANDS


def test_the_newest_statements_of_each_part_are_told(bench: Bench, wording: Wording) -> None:
    said = [f"Column {number} is encoded in latin-1." for number in range(9)]
    experiences = [_experience(number, text) for number, text in enumerate(said)]
    text = bench.text([*experiences, _experience(10, STRING)])
    assert text == [*said[-wording.cognition_lines :], f"Required: {STRING}"]


def test_a_failed_check_tells_a_constraint_and_not_the_failure(bench: Bench) -> None:
    [row] = bench.step(
        [
            _checked(1, "Wrong order: rows[]", "order", "rows[]"),
            _checked(2, "Number outside the tolerance: total", "numeric_deviation", "total"),
        ]
    )
    assert bench.said(row["text_id"]).split("\n") == [
        "Required: The order of rows[] is checked",
        "Required: total is checked within a tolerance",
    ]
    assert row["constraints"] == [
        _statement(1, "The order of rows[] is checked"),
        _statement(2, "total is checked within a tolerance"),
    ]
    assert (row["facts"], row["behaviours"]) == ([], [])


@pytest.mark.parametrize(
    "kind", ["missing_field", "unexpected_field", "type_mismatch", "value_mismatch", "other"]
)
def test_every_check_kind_is_worded_for_the_environment(
    bench: Bench, wording: Wording, kind: str
) -> None:
    told = bench.text([_experience(1, THOUSANDS), _checked(2, LATIN, kind, "rows[].cusip")])
    sentence = wording.environment[kind].replace("{field}", "rows[].cusip")
    assert told == [THOUSANDS, f"Required: {sentence}"]


def test_a_check_without_a_field_says_nothing_of_the_environment(bench: Bench) -> None:
    experiences = [_experience(1, THOUSANDS), _checked(2, "Failed check: legacy", "other", None)]
    assert bench.text(experiences) == [THOUSANDS]
    assert bench.step([_checked(1, LATIN, "other", None), _checked(2, LATIN, "order", None)]) == []


def test_checks_are_compared_by_their_lesson(bench: Bench) -> None:
    # The lessons are at right angles, whatever their statements say.
    [row] = bench.step(
        [
            _checked(1, LATIN, "order", "rows[]"),
            _checked(2, "Wrong order: rows[]", "order", "rows[]"),
        ]
    )
    assert (row["loose"], row["cohesion"]) == (True, pytest.approx(0.707107, abs=1e-6))
    assert bench.said(row["text_id"]) == "Required: The order of rows[] is checked"


# Versions

_TWO = [_experience(1, THOUSANDS), _experience(2, LATIN)]


def test_the_same_again_is_no_version(bench: Bench) -> None:
    first = bench.step(_TWO)
    assert bench.step(_TWO, first, step=6) == []


def test_nothing_is_looked_at_where_no_experience_of_the_domain_changed(bench: Bench) -> None:
    assert bench.step(_TWO, changed=[]) == []
    assert bench.step(_TWO, changed=[_experience(9, LATIN, domain="e")]) == []


def test_a_new_source_makes_the_next_version(bench: Bench) -> None:
    first = bench.step(_TWO)
    new = _experience(3, STRING)
    [row] = bench.step([*_TWO, new], first, step=6, changed=[new])
    assert (row["world_model_id"], row["version"]) == (5_000_000, 2)
    assert (row["created_step"], row["updated_step"]) == (5, 6)
    assert row["source_policy_ids"] == [1, 2, 3]


def test_a_new_source_that_adds_no_words_makes_a_version_too(bench: Bench) -> None:
    first = bench.step(_TWO)
    new = _experience(3, SORT)
    [row] = bench.step([*_TWO, new], first, step=6, changed=[new])
    assert (row["version"], row["text_id"]) == (2, first[0]["text_id"])


def test_another_wording_of_the_same_sources_makes_the_next_version(bench: Bench) -> None:
    first = bench.step(_TWO)
    again = _experience(2, STRING)
    [row] = bench.step([_TWO[0], again], first, step=6, changed=[again])
    assert (row["version"], row["source_policy_ids"]) == (2, [1, 2])
    assert bench.said(row["text_id"]).split("\n") == [THOUSANDS, f"Required: {STRING}"]


def test_an_archived_source_leaves(bench: Bench) -> None:
    three = [*_TWO, _experience(3, STRING)]
    first = bench.step(three)
    gone = _experience(3, STRING, status="archived")
    [row] = bench.step([*_TWO, gone], first, step=6, changed=[gone])
    assert (row["version"], row["source_policy_ids"], row["constraints"]) == (2, [1, 2], [])


def test_a_domain_of_two_tools_versions_only_what_changed(bench: Bench) -> None:
    others = [_experience(3, THOUSANDS, tool="t"), _experience(4, LATIN, tool="t")]
    first = bench.step([*_TWO, *others])
    new = _experience(5, STRING, tool="t")
    [row] = bench.step([*_TWO, *others, new], first, step=6, changed=[new])
    assert (row["world_model_id"], row["tool"], row["version"]) == (5_000_001, "t", 2)


def test_a_source_that_is_surer_makes_the_next_version(bench: Bench) -> None:
    first = bench.step(_TWO)
    surer = _experience(2, LATIN, confidence=1.0, validations=1)
    [row] = bench.step([_TWO[0], surer], first, step=6, changed=[surer])
    assert (row["version"], row["confidence"]) == (2, pytest.approx(0.9))
