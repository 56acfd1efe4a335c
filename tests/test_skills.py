"""Section 4.6: what may be a skill, what is one skill, and what happens to it afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from memos_flow.injection import carried
from memos_flow.library import Library
from memos_flow.merging import current_lines
from memos_flow.schemas import Eligibility, Guidance, PacketItems, Policies, Skills, Trials
from memos_flow.skills import built, decided, eligibility, members, supplements, used
from memos_flow.texts import content_id
from memos_flow.wording import Wording
from tests.conftest import Plane, Settings
from tests.frames import frame

#: Lessons by angle. Skills cluster at 0.9 here: cos(20) = 0.94 and less is one skill, cos(30) =
#: 0.87 and more is not.
ANGLES = {
    "at 0": 0.0,
    "at 10": 10.0,
    "at 15": 15.0,
    "at 18": 18.0,
    "at 20": 20.0,
    "at 30": 30.0,
    "at 40": 40.0,
    "at 80": 80.0,
    "at 90": 90.0,
    "Unzip; then sort": 0.0,
    "Sort; then count": 10.0,
    "解析全部持仓记录，" * 12: 0.0,
    "parse " * 20 + "end": 0.0,
    "pay $1 for {domain}": 0.0,
}
SIMILAR = 0.9


@pytest.fixture
def texts(plane: Plane) -> Library:
    return plane(ANGLES)


def _experience(policy_id: int, text: str, kind: str = "success_pattern", **over: Any) -> dict:
    """An experience of domain `d`; successes and validated repairs meet every condition."""
    polarity = {
        "success_pattern": "positive",
        "repair_validated": "mixed",
        "preference": "neutral",
    }.get(kind, "negative")
    anchors = kind in ("success_pattern", "repair_validated")
    return {
        "lane_id": 1,
        "policy_id": policy_id,
        "lesson_text_id": content_id(text),
        "experience_type": kind,
        "evidence_polarity": polarity,
        "skill_eligible": anchors,
        "gain": 0.5 if anchors else 0.0,
        "validations": int(kind == "repair_validated"),
        "domain": "d",
    } | over


def _avoidance(policy_id: int, text: str, **over: Any) -> dict:
    return _experience(policy_id, text, "failure_avoidance", **over)


def _repair(policy_id: int, text: str, **over: Any) -> dict:
    return _experience(policy_id, text, "repair_instruction", **over)


def _skill(skill_id: int, sources: Sequence[int], **over: Any) -> dict:
    """A skill of lane 1, whose sources are all anchors."""
    return {
        "lane_id": 1,
        "skill_id": skill_id,
        "domain": "d",
        "source_policy_ids": list(sources),
        "anchor_policy_ids": list(sources),
        "anchor_required": True,
        "status": "candidate",
    } | over


def _policies(experiences: Sequence[dict]) -> pl.LazyFrame:
    return frame(Policies, experiences).lazy()


# What may be the main evidence of a skill


def _decisions(settings: Settings, *experiences: dict, **over: Any) -> dict[int, str]:
    rows = decided(_policies(experiences), settings(**over).lazy()).collect()
    return dict(rows.select("policy_id", "decision").rows())


_FAILS_ALL = {"skill_eligible": False, "status": "candidate", "gain": 0.0, "support": 1}


@pytest.mark.parametrize(
    ("met", "decision"),
    [
        ([], "no-success-anchor"),
        (["skill_eligible"], "status"),
        (["skill_eligible", "status"], "gain"),
        (["skill_eligible", "status", "gain"], "support"),
        (["skill_eligible", "status", "gain", "support"], "eligible"),
        (["status", "gain", "support"], "no-success-anchor"),
        (["skill_eligible", "gain", "support"], "status"),
        (["skill_eligible", "status", "support"], "gain"),
    ],
)
def test_the_first_condition_that_fails_is_the_reason(
    settings: Settings, met: list[str], decision: str
) -> None:
    passing = {"skill_eligible": True, "status": "active", "gain": 0.5, "support": 2}
    row = _FAILS_ALL | {name: passing[name] for name in met}
    experience = _experience(1, "at 0", **row)
    assert _decisions(settings, experience, skills_min_support=2) == {1: decision}


def test_gain_and_support_may_just_reach_their_thresholds(settings: Settings) -> None:
    found = _decisions(
        settings,
        _experience(1, "at 0", gain=0.02, support=1),
        _experience(2, "at 0", gain=0.019, support=1),
    )
    assert found == {1: "eligible", 2: "gain"}


@pytest.mark.parametrize("kind", ["failure_avoidance", "repair_instruction", "preference"])
def test_what_is_no_success_is_no_anchor_whatever_its_gain(settings: Settings, kind: str) -> None:
    experience = _experience(1, "at 0", kind, gain=1.0, support=1)
    assert _decisions(settings, experience) == {1: "no-success-anchor"}


def test_a_validated_repair_is_an_anchor(settings: Settings) -> None:
    assert _decisions(settings, _experience(1, "at 0", "repair_validated")) == {1: "eligible"}


def test_a_waived_anchor_waives_the_gain_but_not_status_and_support(settings: Settings) -> None:
    found = _decisions(
        settings,
        _avoidance(1, "at 0", support=2),
        _avoidance(2, "at 0", support=2, status="candidate"),
        _avoidance(3, "at 0", support=1),
        skills_anchor_required=False,
        skills_min_support=2,
    )
    assert found == {1: "eligible", 2: "status", 3: "support"}


@pytest.mark.parametrize(
    ("mode", "decision"), [("ignore", "no-success-anchor"), ("use", "eligible")]
)
def test_observational_validations_count_only_where_the_variant_uses_them(
    settings: Settings, mode: str, decision: str
) -> None:
    repair = _experience(1, "at 0", "repair_validated", validations=2, observational_validations=2)
    assert _decisions(settings, repair, validation_observational=mode) == {1: decision}


def test_one_validation_that_was_not_observational_is_enough(settings: Settings) -> None:
    repair = _experience(1, "at 0", "repair_validated", validations=2, observational_validations=1)
    assert _decisions(settings, repair, validation_observational="ignore") == {1: "eligible"}


def test_a_success_needs_no_validation(settings: Settings) -> None:
    success = _experience(1, "at 0")
    assert _decisions(settings, success, validation_observational="ignore") == {1: "eligible"}


def test_nothing_is_decided_where_skills_are_switched_off(settings: Settings) -> None:
    assert _decisions(settings, _experience(1, "at 0"), skills_enabled=False) == {}


def test_an_archived_success_is_skipped_for_its_status(settings: Settings) -> None:
    assert _decisions(settings, _experience(1, "at 0", status="archived")) == {1: "status"}


# What is one skill


def _members(
    texts: Library,
    settings: Settings,
    experiences: Sequence[dict],
    skills: Sequence[dict] = (),
    **over: Any,
) -> dict[int, int]:
    rules = settings(**{"skills_cluster_similarity": SIMILAR, **over}).lazy()
    judged = decided(_policies(experiences), rules)
    rows = members(judged, frame(Skills, skills).lazy(), texts)
    return dict(rows.select("policy_id", "skill_id").rows())


def test_similar_successes_are_one_skill_named_by_the_oldest(
    texts: Library, settings: Settings
) -> None:
    successes = [_experience(3, "at 10"), _experience(2, "at 0"), _experience(4, "at 90")]
    assert _members(texts, settings, successes) == {2: 2, 3: 2, 4: 4}


def test_similarity_is_passed_on(texts: Library, settings: Settings) -> None:
    # cos(40) = 0.77: the first and the last are one skill through the one between them.
    successes = [_experience(1, "at 0"), _experience(2, "at 40"), _experience(3, "at 20")]
    assert _members(texts, settings, successes) == {1: 1, 2: 1, 3: 1}


def test_domains_are_never_pooled(texts: Library, settings: Settings) -> None:
    successes = [_experience(1, "at 0"), _experience(2, "at 0", domain="e")]
    assert _members(texts, settings, successes) == {1: 1, 2: 2}


@pytest.mark.parametrize("grouping", ["cluster", "domain"])
def test_untagged_successes_are_never_pooled(
    texts: Library, settings: Settings, grouping: str
) -> None:
    successes = [_experience(1, "at 0", domain=None), _experience(2, "at 0", domain=None)]
    found = _members(texts, settings, successes, skills_grouping=grouping)
    assert found == {1: 1, 2: 2}


def test_an_untagged_success_does_not_join_a_skill(texts: Library, settings: Settings) -> None:
    successes = [_experience(1, "at 0", domain=None), _experience(2, "at 0", domain=None)]
    assert _members(texts, settings, successes, [_skill(1, [1], domain=None)]) == {1: 1, 2: 2}


@pytest.mark.parametrize(
    ("grouping", "skills"),
    [
        ("experience", {1: 1, 2: 2, 3: 3, 4: 4}),
        ("cluster", {1: 1, 2: 1, 3: 3, 4: 4}),
        ("domain", {1: 1, 2: 1, 3: 1, 4: 4}),
    ],
)
def test_grouping(
    texts: Library, settings: Settings, grouping: str, skills: dict[int, int]
) -> None:
    successes = [
        _experience(1, "at 0"),
        _experience(2, "at 0"),
        _experience(3, "at 90"),
        _experience(4, "at 0", domain="e"),
    ]
    assert _members(texts, settings, successes, skills_grouping=grouping) == skills


@pytest.mark.parametrize(("grouping", "skill"), [("experience", 3), ("cluster", 3), ("domain", 1)])
def test_grouping_decides_whether_a_new_success_joins(
    texts: Library, settings: Settings, grouping: str, skill: int
) -> None:
    successes = [_experience(1, "at 0"), _experience(3, "at 90")]
    found = _members(texts, settings, successes, [_skill(1, [1])], skills_grouping=grouping)
    assert found == {1: 1, 3: skill}


def test_lanes_are_never_pooled(texts: Library, settings: Settings) -> None:
    rules = settings([1, 2], skills_cluster_similarity=SIMILAR).lazy()
    both = _policies([_experience(1, "at 0"), _experience(2, "at 0", lane_id=2)])
    rows = members(decided(both, rules), Skills.create_empty(lazy=True), texts)
    assert rows.rows() == [(1, 1, 1), (2, 2, 2)]


def test_only_eligible_experiences_are_members(texts: Library, settings: Settings) -> None:
    found = _members(
        texts,
        settings,
        [_experience(1, "at 0"), _experience(2, "at 0", gain=0.0), _avoidance(3, "at 0")],
    )
    assert found == {1: 1}


def test_a_new_success_joins_the_most_similar_skill(texts: Library, settings: Settings) -> None:
    # Both are similar enough: cos(18) = 0.95, cos(12) = 0.98.
    successes = [_experience(1, "at 0"), _experience(2, "at 30"), _experience(3, "at 18")]
    known = [_skill(1, [1]), _skill(2, [2])]
    assert _members(texts, settings, successes, known) == {1: 1, 2: 2, 3: 2}


def test_of_equally_similar_skills_the_oldest_is_joined(texts: Library, settings: Settings) -> None:
    successes = [_experience(1, "at 30"), _experience(2, "at 0"), _experience(3, "at 15")]
    known = [_skill(2, [2]), _skill(1, [1])]
    assert _members(texts, settings, successes, known)[3] == 1


def test_a_new_success_joins_by_the_most_similar_member(texts: Library, settings: Settings) -> None:
    # cos(40) = 0.77 to the first member, cos(20) = 0.94 to the second.
    successes = [_experience(1, "at 0"), _experience(2, "at 20"), _experience(3, "at 40")]
    assert _members(texts, settings, successes, [_skill(1, [1, 2])])[3] == 1


def test_a_new_success_that_resembles_no_skill_is_its_own(
    texts: Library, settings: Settings
) -> None:
    successes = [_experience(1, "at 0"), _experience(3, "at 30")]
    assert _members(texts, settings, successes, [_skill(1, [1])]) == {1: 1, 3: 3}


def test_a_similar_supplement_attracts_no_success(texts: Library, settings: Settings) -> None:
    experiences = [_experience(1, "at 0"), _avoidance(2, "at 90"), _experience(3, "at 90")]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1])]
    assert _members(texts, settings, experiences, known) == {1: 1, 3: 3}


def test_two_skills_that_grew_alike_stay_two(texts: Library, settings: Settings) -> None:
    successes = [_experience(1, "at 0"), _experience(2, "at 0")]
    assert _members(texts, settings, successes, [_skill(1, [1]), _skill(2, [2])]) == {1: 1, 2: 2}


def test_a_supplement_that_became_an_anchor_stays_with_its_skill(
    texts: Library, settings: Settings
) -> None:
    # cos(90) = 0: alone it would be a skill of its own.
    experiences = [_experience(1, "at 0"), _experience(2, "at 90", "repair_validated")]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1])]
    assert _members(texts, settings, experiences, known) == {1: 1, 2: 1}


def test_a_source_of_two_skills_stays_with_the_oldest(texts: Library, settings: Settings) -> None:
    successes = [_experience(policy_id, "at 0") for policy_id in (1, 2, 3)]
    known = [_skill(2, [2, 3]), _skill(1, [1, 3])]
    assert _members(texts, settings, successes, known)[3] == 1


# What supplements a skill


def _supplements(
    texts: Library, settings: Settings, experiences: Sequence[dict], skills: Sequence[dict] = ()
) -> dict[int, int]:
    rules = settings(skills_cluster_similarity=SIMILAR).lazy()
    judged = decided(_policies(experiences), rules)
    known = frame(Skills, skills).lazy()
    placed = members(judged, known, texts).lazy()
    rows = supplements(judged, placed, known, texts).collect()
    return dict(rows.select("policy_id", "skill_id").rows())


@pytest.mark.parametrize("kind", ["failure_avoidance", "repair_instruction", "preference"])
def test_what_is_no_success_supplements_the_nearest_skill_however_far(
    texts: Library, settings: Settings, kind: str
) -> None:
    # cos(80) = 0.17 and cos(50) = 0.64: neither would be one cluster.
    experiences = [_experience(1, "at 0"), _experience(2, "at 30"), _experience(3, "at 80", kind)]
    assert _supplements(texts, settings, experiences) == {3: 2}


def test_a_supplement_needs_a_skill_of_its_domain(texts: Library, settings: Settings) -> None:
    experiences = [
        _experience(1, "at 0"),
        _experience(2, "at 0", domain=None),
        _avoidance(3, "at 0", domain="e"),
        _avoidance(4, "at 0", domain=None),
    ]
    assert _supplements(texts, settings, experiences) == {}


def test_a_candidate_supplements_nothing(texts: Library, settings: Settings) -> None:
    experiences = [_experience(1, "at 0"), _repair(2, "at 0", status="candidate")]
    assert _supplements(texts, settings, experiences) == {}


def test_a_success_of_too_little_gain_supplements_nothing(
    texts: Library, settings: Settings
) -> None:
    experiences = [_experience(1, "at 0"), _experience(2, "at 0", gain=0.0)]
    assert _supplements(texts, settings, experiences) == {}


def test_a_supplement_keeps_its_skill_though_another_is_nearer(
    texts: Library, settings: Settings
) -> None:
    experiences = [_experience(1, "at 0"), _experience(2, "at 90"), _avoidance(3, "at 80")]
    known = [_skill(1, [1, 3], anchor_policy_ids=[1]), _skill(2, [2])]
    assert _supplements(texts, settings, experiences, known) == {3: 1}


def test_a_supplement_leaves_a_skill_that_has_no_eligible_member(
    texts: Library, settings: Settings
) -> None:
    experiences = [
        _experience(1, "at 0", gain=0.0),
        _experience(2, "at 90"),
        _avoidance(3, "at 0"),
    ]
    known = [_skill(1, [1, 3], anchor_policy_ids=[1]), _skill(2, [2])]
    assert _supplements(texts, settings, experiences, known) == {3: 2}


def test_a_supplement_that_moved_keeps_its_new_skill(texts: Library, settings: Settings) -> None:
    # It left skill 1, whose member is no longer eligible, for skill 2; skill 4 came later.
    experiences = [
        _experience(1, "at 0", gain=0.0),
        _experience(2, "at 90"),
        _avoidance(3, "at 0"),
        _experience(4, "at 10"),
    ]
    known = [
        _skill(1, [1, 3], anchor_policy_ids=[1]),
        _skill(2, [2, 3], anchor_policy_ids=[2]),
        _skill(4, [4]),
    ]
    assert _supplements(texts, settings, experiences, known) == {3: 2}


# Trials that used a skill


def _used(
    settings: Settings,
    skill: dict,
    *,
    passed: bool | None,
    item: Mapping[str, Any] | None = None,
    **over: Any,
) -> dict[str, Any]:
    """The skill after a trial of step 7 with it in its packet."""
    shown = {
        "lane_id": 1,
        "step": 7,
        "channel": "skill",
        "item_id": 1,
        "section": "skills",
        "fate": "injected",
    } | dict(item or {})
    trial = {
        "lane_id": 1,
        "step": 7,
        "status": "verifier_error" if passed is None else "scored",
        "reward": None if passed is None else float(passed),
        "passed": passed,
    }
    rows = used(
        frame(Skills, [skill]).lazy(),
        carried(frame(PacketItems, [shown]).lazy()),
        frame(Trials, [trial]).lazy(),
        settings(**over).lazy(),
    )
    return rows.collect().row(0, named=True)


def _tally(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["status"], row["tried"], row["passed"]


def test_a_candidate_is_active_after_one_passed_trial(settings: Settings) -> None:
    assert _tally(_used(settings, _skill(1, [1]), passed=True)) == ("active", 1, 1)


def test_a_candidate_stays_one_after_a_failed_trial(settings: Settings) -> None:
    assert _tally(_used(settings, _skill(1, [1]), passed=False)) == ("candidate", 1, 0)


def test_a_candidate_needs_as_many_passes_as_the_variant_says(settings: Settings) -> None:
    first = _used(settings, _skill(1, [1]), passed=True, skills_activate_passed=2)
    assert _tally(first) == ("candidate", 1, 1)
    second = _used(
        settings, _skill(1, [1], tried=4, passed=1), passed=True, skills_activate_passed=2
    )
    assert _tally(second) == ("active", 5, 2)


def test_a_trial_makes_a_version(settings: Settings) -> None:
    row = _used(settings, _skill(1, [1], version=4, updated_step=5, built_step=5), passed=True)
    assert (row["version"], row["updated_step"], row["built_step"]) == (5, 7, 5)


def test_three_failed_trials_archive(settings: Settings) -> None:
    # eta = (0 + 1) / (3 + 2) = 0.2
    row = _used(settings, _skill(1, [1], tried=2), passed=False)
    assert _tally(row) == ("archived", 3, 0)


def test_an_active_skill_is_archived_too(settings: Settings) -> None:
    # eta = (1 + 1) / (8 + 2) = 0.2
    row = _used(settings, _skill(1, [1], status="active", tried=7, passed=1), passed=False)
    assert _tally(row) == ("archived", 8, 1)


def test_a_skill_just_above_the_threshold_is_kept(settings: Settings) -> None:
    # eta = (1 + 1) / (7 + 2) = 0.22
    row = _used(settings, _skill(1, [1], status="active", tried=6, passed=1), passed=False)
    assert _tally(row) == ("active", 7, 1)


def test_less_than_three_trials_never_archive(settings: Settings) -> None:
    # eta = (0 + 1) / (2 + 2) = 0.25
    row = _used(settings, _skill(1, [1], tried=1), passed=False, skills_archive_eta=0.5)
    assert _tally(row) == ("candidate", 2, 0)


def test_an_unscored_trial_does_not_count(settings: Settings) -> None:
    row = _used(settings, _skill(1, [1], updated_step=5), passed=None)
    assert (_tally(row), row["version"], row["updated_step"]) == (("candidate", 0, 0), 1, 5)


@pytest.mark.parametrize(
    "item", [{"fate": "top-k"}, {"channel": "experience"}, {"item_id": 2}, {"lane_id": 2}]
)
def test_a_trial_without_the_skill_in_its_packet_does_not_count(
    settings: Settings, item: dict[str, Any]
) -> None:
    row = _used(settings, _skill(1, [1]), passed=True, item=item)
    assert (_tally(row), row["version"]) == (("candidate", 0, 0), 1)


# Building


@dataclass
class Bench:
    """The stages of skills in the order of a step, on experiences written by hand."""

    texts: Library
    settings: Settings
    wording: Wording

    def step(
        self,
        step: int,
        experiences: Sequence[dict],
        skills: Sequence[dict] = (),
        *,
        lines: Sequence[dict] | None = None,
        tried: Sequence[dict] | None = None,
        known: Sequence[dict] = (),
        validated: Sequence[int] = (),
        **over: Any,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The skill versions and the decisions that the step adds.

        `lines`: guidance, by default each experience's lesson; `tried`: the skills after the trial;
        `known`: the decisions known before; `validated`: the experiences validated in this step.
        """
        rules = self.settings(**{"skills_cluster_similarity": SIMILAR, **over}).lazy()
        starts = pl.LazyFrame(
            {"lane_id": [1], "step": [step]}, schema={"lane_id": pl.Int64, "step": pl.Int32}
        )
        before = frame(Skills, skills).lazy()
        after = before if tried is None else frame(Skills, tried).lazy()
        guidance = [_line(row) for row in experiences] if lines is None else lines
        told = current_lines(frame(Guidance, guidance).lazy(), rules)
        judged = decided(_policies(experiences), rules).collect().lazy()
        placed = members(judged, after, self.texts).lazy()
        helping = supplements(judged, placed, after, self.texts).collect().lazy()
        confirmed = pl.LazyFrame(
            {"lane_id": [1] * len(validated), "policy_id": validated},
            schema={"lane_id": pl.Int64, "policy_id": pl.Int64},
        )
        versions = built(
            judged,
            placed,
            helping,
            confirmed,
            before,
            after,
            told,
            starts,
            self.texts,
            self.wording,
        )
        rows = Skills.validate(versions.collect())
        changed = eligibility(
            judged, placed, rows.lazy(), frame(Eligibility, known).lazy(), starts
        ).collect()
        return rows.to_dicts(), Eligibility.validate(changed).to_dicts()

    def build(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.step(*args, **kwargs)[0]

    def decide(self, *args: Any, **kwargs: Any) -> list[tuple[int, str, int | None]]:
        rows = self.step(*args, **kwargs)[1]
        return [(row["policy_id"], row["decision"], row["skill_id"]) for row in rows]

    def said(self, text_id: int) -> str:
        found = self.texts.texts.filter(pl.col("text_id") == text_id).collect()
        return found["text"].item()


_KINDS = {"failure_avoidance": "avoid", "repair_instruction": "check", "repair_validated": "check"}


def _line(experience: dict, **over: Any) -> dict:
    """The line that an experience's lesson makes, of the step at which it was updated."""
    return {
        "lane_id": 1,
        "policy_id": experience["policy_id"],
        "kind": _KINDS.get(experience["experience_type"], "prefer"),
        "text_id": experience["lesson_text_id"],
        "step": experience.get("updated_step", 0),
    } | over


@pytest.fixture
def bench(texts: Library, settings: Settings, wording: Wording) -> Bench:
    return Bench(texts, settings, wording)


def test_a_first_build_is_a_candidate(bench: Bench) -> None:
    [row] = bench.build(3, [_experience(1, "at 0", updated_step=3)])
    assert (row["skill_id"], row["version"], *_tally(row)) == (1, 1, "candidate", 0, 0)
    assert (row["created_step"], row["updated_step"], row["built_step"]) == (3, 3, 3)
    assert (row["anchor_required"], row["domain"]) == (True, "d")


def test_a_skill_records_its_anchors_sources_and_evidence(bench: Bench) -> None:
    [row] = bench.build(
        3,
        [
            _experience(2, "at 0", source_trace_ids=[21, 20]),
            _experience(1, "at 10", source_trace_ids=[20, 10]),
            _avoidance(3, "at 90", source_trace_ids=[30]),
        ],
    )
    assert row["anchor_policy_ids"] == [1, 2]
    assert row["source_policy_ids"] == [1, 2, 3]
    assert row["evidence_trace_ids"] == [10, 20, 21, 30]


def test_a_source_without_traces_adds_no_evidence(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", source_trace_ids=[10]), _avoidance(2, "at 90")]
    [row] = bench.build(3, experiences)
    assert row["evidence_trace_ids"] == [10]


@pytest.mark.parametrize("kind", ["failure_avoidance", "repair_instruction", "preference"])
def test_without_a_success_there_is_no_skill(bench: Bench, kind: str) -> None:
    assert bench.build(3, [_experience(1, "at 0", kind), _experience(2, "at 0", kind)]) == []


def test_a_waived_anchor_makes_a_skill_of_an_avoidance_that_says_so(bench: Bench) -> None:
    [row] = bench.build(3, [_avoidance(1, "at 0")], skills_anchor_required=False)
    assert (row["anchor_required"], row["anchor_policy_ids"]) == (False, [])
    assert (row["source_policy_ids"], bench.said(row["text_id"])) == ([1], "Avoid: at 0")


_BUILT = {"built_step": 3, "updated_step": 3, "created_step": 3, "version": 2}


def test_a_skill_is_left_alone_while_nothing_is_newer(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=3), _avoidance(2, "at 0", updated_step=2)]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1], **_BUILT)]
    assert bench.build(4, experiences, known) == []


def test_a_newer_member_rebuilds(bench: Bench) -> None:
    known = [_skill(1, [1], status="active", tried=2, passed=1, **_BUILT)]
    [row] = bench.build(5, [_experience(1, "at 0", updated_step=5)], known)
    assert (row["version"], *_tally(row)) == (3, "active", 2, 1)
    assert (row["created_step"], row["updated_step"], row["built_step"]) == (3, 5, 5)


def test_a_newer_supplement_rebuilds(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=3), _avoidance(2, "at 0", updated_step=5)]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1], **_BUILT)]
    assert [row["version"] for row in bench.build(5, experiences, known)] == [3]


def test_a_source_that_is_gone_rebuilds(bench: Bench) -> None:
    # Nothing that is left is newer than the last build.
    experiences = [
        _experience(1, "at 0", updated_step=3),
        _experience(2, "at 0", updated_step=3, gain=0.0),
    ]
    [row] = bench.build(5, experiences, [_skill(1, [1, 2], **_BUILT)])
    assert (row["version"], row["source_policy_ids"]) == (3, [1])


def test_an_old_experience_that_is_new_to_the_skill_rebuilds(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=3), _avoidance(2, "at 0", updated_step=1)]
    [row] = bench.build(5, experiences, [_skill(1, [1], **_BUILT)])
    assert (row["anchor_policy_ids"], row["source_policy_ids"]) == ([1], [1, 2])


def test_a_skill_keeps_its_id_without_the_member_it_was_named_by(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", gain=0.0), _experience(2, "at 0")]
    [row] = bench.build(5, experiences, [_skill(1, [1, 2], **_BUILT)])
    assert (row["skill_id"], row["source_policy_ids"]) == (1, [2])


def test_a_skill_without_an_eligible_member_is_not_rebuilt(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", gain=0.0, updated_step=5), _avoidance(2, "at 0")]
    assert bench.build(5, experiences, [_skill(1, [1, 2], anchor_policy_ids=[1], **_BUILT)]) == []


def test_a_tried_skill_is_a_version_of_its_own(bench: Bench) -> None:
    before = _skill(1, [1], **_BUILT)
    tried = before | {"tried": 1, "passed": 1, "status": "active", "version": 3, "updated_step": 5}
    [row] = bench.build(5, [_experience(1, "at 0", updated_step=3)], [before], tried=[tried])
    assert (row["version"], row["built_step"], *_tally(row)) == (3, 3, "active", 1, 1)


def test_a_skill_both_tried_and_rebuilt_counts_up_by_one(bench: Bench) -> None:
    before = _skill(1, [1], **_BUILT)
    tried = before | {"tried": 1, "passed": 1, "status": "active", "version": 3, "updated_step": 5}
    [row] = bench.build(5, [_experience(1, "at 0", updated_step=5)], [before], tried=[tried])
    assert (row["version"], row["built_step"], *_tally(row)) == (3, 5, "active", 1, 1)


_ARCHIVED = {"status": "archived", "tried": 3, "passed": 0, **_BUILT}


def test_an_archived_skill_comes_back_when_a_source_is_validated_again(bench: Bench) -> None:
    repair = _experience(1, "at 0", "repair_validated", validations=2, updated_step=5)
    [row] = bench.build(5, [repair], [_skill(1, [1], **_ARCHIVED)], validated=[1])
    assert (row["version"], *_tally(row)) == (3, "candidate", 0, 0)


def test_a_supplement_that_is_validated_brings_it_back_too(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0", updated_step=3),
        _avoidance(2, "at 0", validations=1, updated_step=5),
    ]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1], **_ARCHIVED)]
    lines = [_line(experiences[0]), _line(experiences[1]) | {"text_id": content_id("at 10")}]
    [row] = bench.build(5, experiences, known, lines=lines, validated=[2])
    assert _tally(row) == ("candidate", 0, 0)


def test_an_archived_skill_comes_back_when_its_supplement_became_an_anchor(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0", updated_step=3),
        _experience(2, "at 90", "repair_validated", updated_step=5),
    ]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1], **_ARCHIVED)]
    [row] = bench.build(5, experiences, known, validated=[2])
    assert (row["anchor_policy_ids"], *_tally(row)) == ([1, 2], "candidate", 0, 0)


def test_an_active_skill_keeps_its_counts_when_a_source_is_validated_again(bench: Bench) -> None:
    repair = _experience(1, "at 0", "repair_validated", validations=2, updated_step=5)
    known = [_skill(1, [1], status="active", tried=2, passed=1, **_BUILT)]
    assert [_tally(row) for row in bench.build(5, [repair], known, validated=[1])] == [
        ("active", 2, 1)
    ]


def test_an_archived_skill_stays_archived_when_a_source_is_merely_newer(bench: Bench) -> None:
    [row] = bench.build(5, [_experience(1, "at 0", updated_step=5)], [_skill(1, [1], **_ARCHIVED)])
    assert (row["version"], *_tally(row)) == (3, "archived", 3, 0)


def test_an_earlier_validation_does_not_bring_an_archived_skill_back(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0", "repair_validated", updated_step=3),
        _avoidance(2, "at 0", updated_step=5),
    ]
    [row] = bench.build(5, experiences, [_skill(1, [1, 2], anchor_policy_ids=[1], **_ARCHIVED)])
    assert _tally(row) == ("archived", 3, 0)


def test_a_contradiction_does_not_bring_an_archived_skill_back(bench: Bench) -> None:
    # Validated in step 3, when the skill was built; the same fault again in step 5.
    repair = _experience(1, "at 0", "repair_validated", updated_step=5, support=2, contradictions=1)
    [row] = bench.build(5, [repair], [_skill(1, [1], **_ARCHIVED)])
    assert _tally(row) == ("archived", 3, 0)


# What a skill says


def _text(bench: Bench, experiences: Sequence[dict], **kwargs: Any) -> list[str]:
    [row] = bench.build(9, experiences, **kwargs)
    return bench.said(row["text_id"]).split("\n")


def test_members_advise_then_come_avoid_and_check(bench: Bench) -> None:
    experiences = [
        _repair(1, "at 20"),
        _avoidance(2, "at 10"),
        _experience(3, "at 0"),
        _experience(4, "at 15"),
    ]
    lines = [_line(row, step=step) for row, step in zip(experiences, [0, 1, 3, 2], strict=True)]
    assert _text(bench, experiences, lines=lines) == [
        "at 15",
        "at 0",
        "Avoid: at 10",
        "Check: at 20",
    ]


def test_what_a_validated_repair_checked_is_advice(bench: Bench) -> None:
    assert _text(bench, [_experience(1, "at 0", "repair_validated")]) == ["at 0"]


def test_a_members_avoidance_stays_one(bench: Bench) -> None:
    repair = _experience(1, "at 0", "repair_validated")
    lines = [_line(repair), _line(repair, kind="avoid", text_id=content_id("at 90"))]
    assert _text(bench, [repair], lines=lines) == ["at 0", "Avoid: at 90"]


def test_a_procedure_is_told_step_by_step_each_step_once(bench: Bench) -> None:
    successes = [_experience(1, "Unzip; then sort"), _experience(2, "Sort; then count")]
    known = [_experience(3, "at 0")]
    assert _text(bench, successes + known) == ["Unzip", "sort", "Sort", "count", "at 0"]


def test_a_line_of_two_sources_is_told_once_and_both_are_sources(bench: Bench) -> None:
    experiences = [_experience(1, "at 0"), _avoidance(2, "at 90"), _avoidance(3, "at 90")]
    [row] = bench.build(9, experiences)
    assert bench.said(row["text_id"]) == "at 0\nAvoid: at 90"
    assert row["source_policy_ids"] == [1, 2, 3]


def test_what_succeeded_is_not_demoted_by_an_unverified_repair(bench: Bench) -> None:
    assert _text(bench, [_experience(1, "at 0"), _repair(2, "at 0")]) == ["at 0"]


def test_a_skill_without_lines_says_its_lesson(bench: Bench) -> None:
    assert _text(bench, [_experience(1, "at 0")], lines=[]) == ["at 0"]


def test_a_supplement_that_says_nothing_is_no_source(bench: Bench) -> None:
    experiences = [_experience(1, "at 0"), _avoidance(2, "at 0")]
    [row] = bench.build(9, experiences, lines=[_line(experiences[0])])
    assert row["source_policy_ids"] == [1]


def test_what_has_no_room_is_no_source(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0"),
        _avoidance(2, "at 10", updated_step=4),
        _avoidance(3, "at 20", updated_step=6),
        _avoidance(4, "at 30", updated_step=5),
        _repair(5, "at 40", updated_step=1),
    ]
    [row] = bench.build(9, experiences, merge_guidance_lines=2)
    assert bench.said(row["text_id"]).split("\n") == [
        "at 0",
        "Avoid: at 30",
        "Avoid: at 20",
        "Check: at 40",
    ]
    assert row["source_policy_ids"] == [1, 3, 4, 5]


def test_a_member_that_has_no_room_is_no_source(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0", updated_step=4),
        _experience(2, "at 10", updated_step=6),
    ]
    [row] = bench.build(9, experiences, merge_guidance_lines=1)
    assert bench.said(row["text_id"]) == "at 10"
    assert row["source_policy_ids"] == [2]


def test_a_supplement_without_room_does_not_rebuild(bench: Bench) -> None:
    experiences = [
        _experience(1, "at 0", updated_step=3),
        _avoidance(2, "at 10", updated_step=3),
        _avoidance(3, "at 20", updated_step=5),
    ]
    lines = [
        _line(experiences[0]),
        _line(experiences[1], step=3),
        _line(experiences[2], step=2),
    ]
    known = [_skill(1, [1, 2], anchor_policy_ids=[1], **_BUILT)]
    assert bench.build(5, experiences, known, lines=lines, merge_guidance_lines=1) == []


def _name(bench: Bench, *experiences: dict) -> str:
    [row] = bench.build(9, experiences)
    return bench.said(row["name_text_id"])


def test_a_skill_is_named_by_its_domain_and_its_first_members_first_step(bench: Bench) -> None:
    first, second = _experience(1, "Unzip; then sort"), _experience(2, "Sort; then count")
    assert _name(bench, second, first) == "d: Unzip"


def test_an_untagged_skill_is_named_by_its_lesson_alone(bench: Bench) -> None:
    assert _name(bench, _experience(1, "at 0", domain=None)) == "at 0"


def test_a_name_takes_the_lesson_as_it_is(bench: Bench) -> None:
    name = _name(bench, _experience(1, "pay $1 for {domain}"))
    assert name == "d: pay $1 for {domain}"


def test_a_long_name_is_cut_between_words(bench: Bench) -> None:
    # Ten times "parse " are 60 characters, the last of them a space.
    assert _name(bench, _experience(1, "parse " * 20 + "end")) == "d: " + " ".join(["parse"] * 10)


def test_a_long_name_without_spaces_is_cut_too(bench: Bench) -> None:
    assert len(_name(bench, _experience(1, "解析全部持仓记录，" * 12))) <= len("d: ") + 60


# Decisions


def _known(policy_id: int, decision: str, skill_id: int | None = None, step: int = 3) -> dict:
    return {
        "lane_id": 1,
        "policy_id": policy_id,
        "step": step,
        "decision": decision,
        "skill_id": skill_id,
    }


def test_a_decision_names_the_skill_that_was_built(bench: Bench) -> None:
    experiences = [_experience(1, "at 0"), _experience(2, "at 0"), _avoidance(3, "at 0")]
    assert bench.decide(3, experiences) == [
        (1, "eligible", 1),
        (2, "eligible", 1),
        (3, "no-success-anchor", None),
    ]


def test_an_experience_whose_skill_holds_it_already_is_up_to_date(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=3)]
    known = [_known(1, "eligible", 1)]
    assert bench.decide(4, experiences, [_skill(1, [1], **_BUILT)], known=known) == [
        (1, "up-to-date", 1)
    ]


def test_a_decision_that_did_not_change_is_no_row(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=3), _avoidance(2, "at 0", updated_step=3)]
    skills = [_skill(1, [1, 2], anchor_policy_ids=[1], **_BUILT)]
    known = [_known(1, "up-to-date", 1), _known(2, "no-success-anchor")]
    assert bench.decide(5, experiences, skills, known=known) == []


def test_a_rebuilt_skill_makes_its_members_eligible_again(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", updated_step=5)]
    known = [_known(1, "up-to-date", 1)]
    assert bench.decide(5, experiences, [_skill(1, [1], **_BUILT)], known=known) == [
        (1, "eligible", 1)
    ]


def test_a_tried_skill_is_up_to_date_and_not_built(bench: Bench) -> None:
    before = _skill(1, [1], **_BUILT)
    tried = before | {"tried": 1, "version": 3, "updated_step": 5}
    experiences = [_experience(1, "at 0", updated_step=3)]
    known = [_known(1, "up-to-date", 1)]
    assert bench.decide(5, experiences, [before], tried=[tried], known=known) == []


def test_another_reason_is_a_new_decision(bench: Bench) -> None:
    experiences = [_experience(1, "at 0", gain=0.0)]
    known = [_known(1, "status")]
    assert bench.decide(5, experiences, known=known) == [(1, "gain", None)]
