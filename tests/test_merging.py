"""Section 4.4: the same lesson joins, another does not, and nothing manufactures a success."""

import polars as pl
import pytest

from memos_flow.library import Library
from memos_flow.merging import assigned, current_lines, merged, new_lines
from memos_flow.schemas import Guidance, Policies
from memos_flow.texts import content_id
from tests.conftest import Plane, Settings
from tests.frames import frame

#: Angles of four lessons: cos(30) = 0.87 merges, cos(10) = 0.98 merges across types, cos(90) = 0.
ANGLES = {"lesson": 0.0, "near": 10.0, "like": 30.0, "other": 90.0}


@pytest.fixture
def texts(plane: Plane) -> Library:
    return plane(ANGLES)


def _experience(
    policy_id: int, text: str, kind: str = "repair_instruction", **over: object
) -> dict:
    polarity = {"success_pattern": "positive", "repair_validated": "mixed"}.get(kind, "negative")
    return {
        "lane_id": 1,
        "policy_id": policy_id,
        "lesson_text_id": content_id(text),
        "experience_type": kind,
        "evidence_polarity": polarity,
        "source_feedback_ids": [policy_id],
        "confidence": 0.5,
        "salience": 0.5,
    } | over


def _drafts(*rows: dict) -> pl.LazyFrame:
    drafts = frame(Policies, rows)
    return drafts.with_columns(
        lesson_id="policy_id",
        step="updated_step",
        line_kind=pl.lit("check", Guidance.create_empty().schema["kind"]),
    ).lazy()


_NOTHING_VALIDATED = pl.LazyFrame(
    schema={"lane_id": pl.Int64, "policy_id": pl.Int64, "lesson_id": pl.Int64}
)


def _effects(
    texts: Library, settings: Settings, drafts: list[dict], known: list[dict], **over: object
) -> list[tuple[int, str]]:
    policies = frame(Policies, known).lazy()
    effects = assigned(
        _drafts(*drafts), policies, _NOTHING_VALIDATED, settings(**over).lazy(), texts
    )
    return effects.select("policy_id", "effect").rows()


def test_a_similar_lesson_merges_and_another_does_not(texts: Library, settings: Settings) -> None:
    known = [_experience(1, "lesson")]
    assert _effects(texts, settings, [_experience(2, "like")], known) == [(1, "merged")]
    assert _effects(texts, settings, [_experience(2, "other")], known) == [(2, "created")]


def test_opposite_signs_never_merge(texts: Library, settings: Settings) -> None:
    opposite = _experience(2, "lesson", directive_sign="do_not")
    assert _effects(texts, settings, [opposite], [_experience(1, "lesson")]) == [(2, "created")]


def test_the_same_check_kind_and_field_is_the_same_lesson(
    texts: Library, settings: Settings
) -> None:
    check = {"check_kind": "order", "field": "rows[]"}
    known = [_experience(1, "lesson", **check)]
    assert _effects(texts, settings, [_experience(2, "other", **check)], known) == [(1, "merged")]
    elsewhere = _experience(2, "other", check_kind="order", field="rows[].value")
    assert _effects(texts, settings, [elsewhere], known) == [(2, "created")]
    unknown = {"check_kind": "order", "field": None}
    assert _effects(
        texts, settings, [_experience(2, "other", **unknown)], [_experience(1, "lesson", **unknown)]
    ) == [(2, "created")]


def test_an_avoidance_joins_a_repair_only_at_the_higher_similarity(
    texts: Library, settings: Settings
) -> None:
    known = [_experience(1, "lesson", "failure_avoidance")]
    assert _effects(texts, settings, [_experience(2, "near")], known) == [(1, "merged")]
    assert _effects(texts, settings, [_experience(2, "like")], known) == [(2, "created")]


@pytest.mark.parametrize("kind", ["failure_avoidance", "repair_instruction", "repair_validated"])
def test_a_success_never_joins_a_failure(texts: Library, settings: Settings, kind: str) -> None:
    success = _experience(2, "lesson", "success_pattern")
    assert _effects(texts, settings, [success], [_experience(1, "lesson", kind)]) == [
        (2, "created")
    ]
    failure = _experience(2, "lesson", "failure_avoidance")
    known = [_experience(1, "lesson", "success_pattern")]
    assert _effects(texts, settings, [failure], known) == [(2, "created")]


def test_the_most_similar_experience_is_joined_and_the_oldest_of_equals(
    texts: Library, settings: Settings
) -> None:
    known = [_experience(1, "like"), _experience(3, "near"), _experience(2, "near")]
    assert _effects(texts, settings, [_experience(9, "lesson")], known) == [(2, "merged")]


def test_an_archived_experience_is_not_joined(texts: Library, settings: Settings) -> None:
    known = [_experience(1, "lesson", status="archived")]
    assert _effects(texts, settings, [_experience(2, "lesson")], known) == [(2, "created")]


def test_drafts_of_one_step_fold_into_the_earliest(texts: Library, settings: Settings) -> None:
    drafts = [_experience(5, "lesson"), _experience(6, "other"), _experience(7, "like")]
    assert _effects(texts, settings, drafts, []) == [
        (5, "created"),
        (6, "created"),
        (5, "folded"),
    ]


def test_folds_follow_their_leader_into_the_memory(texts: Library, settings: Settings) -> None:
    # "like" alone is too far from "lesson" at this threshold, its leader "near" is not.
    drafts = [_experience(5, "near"), _experience(6, "like")]
    known = [_experience(1, "lesson")]
    assert _effects(texts, settings, drafts, known, merge_similarity=0.9) == [
        (1, "merged"),
        (1, "merged"),
    ]


def _merged(
    texts: Library, settings: Settings, drafts: list[dict], known: list[dict], **over: object
) -> pl.DataFrame:
    policies, rules = frame(Policies, known).lazy(), settings(**over).lazy()
    effects = assigned(_drafts(*drafts), policies, _NOTHING_VALIDATED, rules, texts).lazy()
    unchanged = Policies.create_empty(lazy=True)
    return merged(_drafts(*drafts), effects, policies, unchanged, rules).collect()


def test_a_merge_adds_support_and_takes_the_maxima(texts: Library, settings: Settings) -> None:
    known = [_experience(1, "lesson", salience=0.9, confidence=0.4)]
    draft = _experience(2_000_000, "lesson", updated_step=2, created_step=2, source_episode_ids=[2])
    row = _merged(texts, settings, [draft], known).row(0, named=True)
    assert (row["policy_id"], row["updated_step"], row["support"]) == (1, 2, 2)
    assert (row["salience"], row["confidence"]) == (0.9, 0.5)
    assert (row["source_feedback_ids"], row["source_episode_ids"]) == ([1, 2_000_000], [0, 2])


def test_two_lessons_of_one_feedback_support_once(texts: Library, settings: Settings) -> None:
    drafts = [
        _experience(5, "lesson", source_feedback_ids=[50]),
        _experience(6, "near", source_feedback_ids=[50]),
    ]
    assert _merged(texts, settings, drafts, [])["support"].to_list() == [1]


def test_a_repeated_repair_contradicts_a_validated_one(texts: Library, settings: Settings) -> None:
    known = [_experience(1, "lesson", "repair_validated", validations=1, skill_eligible=True)]
    row = _merged(texts, settings, [_experience(2, "lesson")], known).row(0, named=True)
    assert (row["experience_type"], row["support"], row["contradictions"]) == (
        "repair_validated",
        2,
        1,
    )


def test_only_the_upstream_like_setting_lets_a_merge_validate(
    texts: Library, settings: Settings
) -> None:
    known = [_experience(1, "lesson")]
    success = _experience(2, "lesson", "success_pattern")
    row = _merged(texts, settings, [success], known, merge_any_validates=True).row(0, named=True)
    assert (row["experience_type"], row["evidence_polarity"], row["skill_eligible"]) == (
        "repair_validated",
        "mixed",
        True,
    )


def test_a_line_that_repeats_another_is_not_added(texts: Library, settings: Settings) -> None:
    known = frame(
        Guidance, [{"lane_id": 1, "policy_id": 1, "kind": "check", "text_id": content_id("lesson")}]
    )
    rules = settings(merge_near_duplicate_similarity=0.95).lazy()
    drafts = [_experience(2, "near"), _experience(3, "like"), _experience(4, "lesson")]
    effects = pl.LazyFrame(
        {"lane_id": [1, 1, 1], "lesson_id": [2, 3, 4], "policy_id": [1, 1, 1]}
    ).with_columns(effect=pl.lit("merged"))
    added = new_lines(_drafts(*drafts), effects, known.lazy(), rules, texts).collect()
    assert added["text_id"].to_list() == [content_id("like")]


def test_guidance_is_bounded_by_its_newest_lines(settings: Settings) -> None:
    lines = [
        {"lane_id": 1, "policy_id": 1, "kind": kind, "text_id": step, "step": step}
        for step in range(4)
        for kind in ("check", "avoid")
    ]
    kept = current_lines(frame(Guidance, lines).lazy(), settings(merge_guidance_lines=2).lazy())
    result = kept.sort("line").collect()
    assert result.filter(pl.col("kind") == "check")["text_id"].to_list() == [2, 3]
    assert result["line"].to_list() == [0, 1, 2, 3]
