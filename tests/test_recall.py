"""Section 4.8: scores, floors, cuts and fates of the experiences channel."""

from collections.abc import Callable, Mapping

import polars as pl
import pytest

from memos_flow.library import Library
from memos_flow.recall import recalled
from memos_flow.schemas import Policies
from memos_flow.texts import content_id, texts_frame
from tests.conftest import Settings
from tests.frames import frame

ANGLES = {"query": 0.0, "same": 0.0, "half": 60.0, "third": 70.5287794, "none": 90.0}


@pytest.fixture
def texts(plane: Callable[[Mapping[str, float]], Library]) -> Library:
    library = plane(ANGLES)
    library.add(texts_frame(ANGLES))
    return library


def _items(
    texts: Library, settings: Settings, rows: list[dict], step: int = 1, **over: object
) -> pl.DataFrame:
    known = [{"lane_id": 1, "policy_id": index} | row for index, row in enumerate(rows)]
    policies = frame(Policies, [row | {"text_id": content_id(row["text_id"])} for row in known])
    starts = pl.LazyFrame(
        {"lane_id": [1], "step": [step], "query_text_id": [content_id("query")]},
        schema_overrides={"step": pl.Int32},
    )
    return recalled(policies.lazy(), starts, settings(**over).lazy(), texts).collect()


def test_the_score_is_the_weighted_sum_of_its_parts(texts: Library, settings: Settings) -> None:
    row = {"text_id": "half", "salience": 0.8, "gain": 0.3, "confidence": 0.6, "support": 10}
    item = _items(texts, settings, [row], step=30).row(0, named=True)
    # .45 * .5 + .25 * max(.8, .3) + .15 * .6 + .10 * .5**(30/30) + .05 * ln(11)/ln(11)
    assert item["query_similarity"] == pytest.approx(0.5)
    assert item["score"] == pytest.approx(0.225 + 0.2 + 0.09 + 0.05 + 0.05)


def test_below_the_similarity_floor_nothing_is_injected(texts: Library, settings: Settings) -> None:
    rows = [{"text_id": "none", "salience": 1.0}, {"text_id": "half"}]
    items = _items(texts, settings, rows, recall_min_similarity=0.1)
    assert dict(items.select("item_id", "fate").rows()) == {0: "below-floor", 1: "injected"}


def test_a_score_far_below_the_best_is_dropped(texts: Library, settings: Settings) -> None:
    rows = [
        {"text_id": "same", "salience": 1.0, "confidence": 1.0},
        {"text_id": "third", "salience": 0.0, "confidence": 0.0},
    ]
    # .45/3 + .05 * ln 2 / ln 11 + .10 * recency = .26 against .45 + .25 + .15 + ... = .96
    assert _items(texts, settings, rows, recall_floor_ratio=0.3)["fate"].to_list() == [
        "injected",
        "below-floor",
    ]


def test_the_cut_keeps_the_best_and_ties_go_to_the_older(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text_id": "half"}, {"text_id": "same"}, {"text_id": "half"}]
    items = _items(texts, settings, rows, recall_experiences=2)
    assert items.select("item_id", "rank", "fate").rows() == [
        (1, 1, "injected"),
        (0, 2, "injected"),
        (2, 3, "top-k"),
    ]


def test_an_unsure_candidate_is_considered_but_not_injected(
    texts: Library, settings: Settings
) -> None:
    rows = [
        {"text_id": "same", "status": "candidate", "confidence": 0.59},
        {"text_id": "same", "status": "candidate", "confidence": 0.6},
        {"text_id": "same", "status": "archived"},
    ]
    fates = dict(_items(texts, settings, rows).select("item_id", "fate").rows())
    assert fates == {0: "low-confidence", 1: "injected"}
    switched_off = _items(texts, settings, rows, recall_candidates=False)
    assert set(switched_off["fate"]) == {"low-confidence"}


def test_a_setting_without_avoidance_recall_bars_the_type(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text_id": "same", "experience_type": "failure_avoidance"}]
    assert _items(texts, settings, rows, recall_avoidance=False)["fate"].to_list() == [
        "type-switched-off"
    ]


def test_an_avoidance_stands_under_avoid_and_an_unverified_repair_under_check(
    texts: Library, settings: Settings
) -> None:
    kinds = ["success_pattern", "repair_validated", "preference"]
    kinds += ["failure_avoidance", "repair_instruction"]
    rows = [{"text_id": "same", "experience_type": kind} for kind in kinds]
    items = _items(texts, settings, rows).sort("item_id")
    assert items["section"].to_list() == ["do", "do", "do", "avoid", "check"]


def test_no_memory_recalls_nothing(texts: Library, settings: Settings) -> None:
    assert _items(texts, settings, [{"text_id": "same"}], recall_packet="none").is_empty()
