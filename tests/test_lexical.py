"""Section 4.8: tokens, and BM25 within a lane."""

from collections.abc import Sequence
from math import log

import polars as pl
import pytest

from memos_flow import lexical
from memos_flow.library import Library
from memos_flow.recall import Known, recalled
from memos_flow.schemas import Policies, Skills, Traces, Trajectories, WorldModels
from memos_flow.texts import content_id, texts_frame
from tests.conftest import Plane, Settings
from tests.frames import frame

#: Three texts of 3, 2 and 1 tokens: the mean length is 2.
CORPUS = ["red red blue", "red green", "blue"]


def _tokens(text: str) -> dict[str, int]:
    found = lexical.tokens(texts_frame([text]).lazy()).collect()
    return dict(found.select("token", "count").rows())


def _scored(
    library: Library,
    query: str,
    *lanes: Sequence[str],
    channels: Sequence[str] | None = None,
    **rules: float,
) -> dict[int, list[float]]:
    """The similarities per lane of the given texts; lanes are numbered from 1."""
    library.add(texts_frame([query, *(text for texts in lanes for text in texts)]))
    rows = [
        {
            "lane_id": lane,
            "step": 1,
            "channel": channels[item] if channels else "experience",
            "item_id": item,
            "text_id": content_id(text),
            "query_text_id": content_id(query),
            "recall_bm25_k1": 1.2,
            "recall_bm25_b": 0.75,
        }
        | rules
        for lane, texts in enumerate(lanes, start=1)
        for item, text in enumerate(texts)
    ]
    found = lexical.scored(pl.LazyFrame(rows), library.tokens).collect()
    parts = found.partition_by("lane_id", as_dict=True, maintain_order=True)
    return {int(str(lane)): part["lexical_similarity"].to_list() for (lane,), part in parts.items()}


# Tokens.


def test_english_words_are_lower_case_and_counted() -> None:
    assert _tokens("Sort the Rows, then sort again.") == {
        "sort": 2,
        "the": 1,
        "rows": 1,
        "then": 1,
        "again": 1,
    }


def test_a_field_name_is_one_token() -> None:
    assert _tokens("net_amount: net-amount") == {"net_amount": 1, "net": 1, "amount": 1}


def test_numbers_are_tokens() -> None:
    assert _tokens("T+2, 2024 and 3.5") == {"t": 1, "2": 1, "2024": 1, "and": 1, "3": 1, "5": 1}


def test_a_two_character_chinese_word_is_a_token() -> None:
    assert _tokens("金额") == {"金额": 1}


def test_a_run_of_han_is_its_neighbouring_pairs() -> None:
    assert _tokens("对账单") == {"对账": 1, "账单": 1}


def test_a_han_character_alone_is_a_token() -> None:
    assert _tokens("A股") == {"a": 1, "股": 1}


def test_pairs_do_not_cross_punctuation() -> None:
    assert _tokens("账单,金额") == {"账单": 1, "金额": 1}


def test_a_text_without_words_has_no_tokens() -> None:
    assert _tokens("--- !") == {}


# BM25.


def test_bm25_as_worked_on_paper(library: Library) -> None:
    # N = 3; red is in 2 texts, green in 1.
    red, green = log(1 + 1.5 / 2.5), log(1 + 2.5 / 1.5)
    # tf 2, length 3 of mean 2: 2 * 2.2 / (2 + 1.2 * (.25 + .75 * 1.5)) = 4.4 / 3.65
    first = red * 4.4 / 3.65
    # tf 1, length 2 of mean 2: 1 * 2.2 / (1 + 1.2) = 1
    second = red + green
    assert _scored(library, "red green", CORPUS)[1] == [
        pytest.approx(first / second, abs=2e-6),
        1.0,
        0.0,
    ]


def test_without_b_the_length_does_not_count(library: Library) -> None:
    texts = ["red", "red blue blue blue"]
    assert _scored(library, "red", texts, recall_bm25_b=0.0)[1] == [1.0, 1.0]


def test_with_b_the_shorter_text_is_nearer(library: Library) -> None:
    # Mean length 2.5: 2.2 / (1 + 1.2 * (.25 + .75 * .4)) against 2.2 / (1 + 1.2 * (.25 + .75*1.6))
    expected = (1 + 1.2 * 0.55) / (1 + 1.2 * 1.45)
    texts = ["red", "red blue blue blue"]
    assert _scored(library, "red", texts)[1] == [1.0, pytest.approx(expected, abs=2e-6)]


def test_without_k1_a_repetition_does_not_count(library: Library) -> None:
    assert _scored(library, "red", ["red red", "red"], recall_bm25_k1=0.0)[1] == [1.0, 1.0]


def test_a_word_repeated_in_the_query_counts_once(library: Library) -> None:
    assert _scored(library, "red red green", CORPUS) == _scored(library, "red green", CORPUS)


def test_each_channel_has_its_own_best(library: Library) -> None:
    channels = ["experience", "trace", "trace"]
    scores = _scored(library, "red green", CORPUS, channels=channels)
    assert scores[1] == [1.0, 1.0, 0.0]


def test_a_query_that_shares_no_token_is_similar_to_nothing(library: Library) -> None:
    assert _scored(library, "purple", CORPUS)[1] == [0.0, 0.0, 0.0]


def test_without_a_query_nothing_is_similar(library: Library) -> None:
    library.add(texts_frame(CORPUS))
    row = {"lane_id": 1, "step": 1, "channel": "experience", "item_id": 0}
    row |= {"text_id": content_id("blue"), "recall_bm25_k1": 1.2, "recall_bm25_b": 0.75}
    candidates = pl.LazyFrame([row]).with_columns(query_text_id=pl.lit(None, pl.Int64))
    found = lexical.scored(candidates, library.tokens).collect()
    assert found["lexical_similarity"].to_list() == [0.0]


def test_two_character_chinese_words_match(library: Library) -> None:
    assert _scored(library, "检查金额", ["金额要取整", "日期格式"])[1] == [1.0, 0.0]


def test_the_texts_of_another_lane_change_nothing(library: Library) -> None:
    alone = _scored(library, "red green", CORPUS)
    beside = _scored(library, "red green", CORPUS, ["red", "red green red", "green", "green"])
    assert beside[1] == alone[1]


def test_each_lane_has_its_own_parameters(library: Library) -> None:
    texts = ["red", "red blue blue blue"]
    library.add(texts_frame([*texts, "red"]))
    candidates = pl.LazyFrame(
        [
            {
                "lane_id": lane,
                "step": 1,
                "channel": "experience",
                "item_id": item,
                "text_id": content_id(text),
                "query_text_id": content_id("red"),
                "recall_bm25_k1": 1.2,
                "recall_bm25_b": b,
            }
            for lane, b in ((1, 0.75), (2, 0.0))
            for item, text in enumerate(texts)
        ]
    )
    found = lexical.scored(candidates, library.tokens).collect()["lexical_similarity"].to_list()
    # Lane 1 as in `test_with_b_the_shorter_text_is_nearer`, lane 2 as without b.
    assert found == [1.0, pytest.approx(1.66 / 2.74, abs=2e-6), 1.0, 1.0]


# The similarities of recall.

WORDED = {"red": 0.0, "red wine": 60.0, "blue": 0.0}


def _similarities(plane: Plane, rules: pl.DataFrame) -> dict[tuple[int, int], float]:
    """`(lane, item)` to the query similarity of two experiences to the query "red"."""
    library = plane(WORDED)
    lanes = rules["lane_id"].to_list()
    policies = frame(
        Policies,
        [
            {"lane_id": lane, "policy_id": item, "text_id": content_id(text)}
            for lane in lanes
            for item, text in enumerate(["red wine", "blue"])
        ],
    )
    nothing = (frame(schema, []).lazy() for schema in (Skills, Traces, Trajectories, WorldModels))
    starts = rules.lazy().select(
        "lane_id", step=pl.lit(1, pl.Int32), query_text_id=pl.lit(content_id("red"))
    )
    items = recalled(Known(policies.lazy(), *nothing), starts, rules.lazy(), library).collect()
    rows = items.select("lane_id", "item_id", "query_similarity").rows()
    return {(lane, item): similarity for lane, item, similarity in rows}


def test_lexical_similarity_is_by_words(plane: Plane, settings: Settings) -> None:
    found = _similarities(plane, settings(recall_similarity="lexical"))
    assert found == {(1, 0): 1.0, (1, 1): 0.0}


def test_hybrid_similarity_is_the_mean_of_both(plane: Plane, settings: Settings) -> None:
    # Vector .5 and 1, lexical 1 and 0.
    found = _similarities(plane, settings(recall_similarity="hybrid"))
    assert found == {(1, 0): pytest.approx(0.75), (1, 1): pytest.approx(0.5)}


def test_lanes_of_all_three_similarities_stand_side_by_side(
    plane: Plane, settings: Settings
) -> None:
    measures = {1: "vector", 2: "lexical", 3: "hybrid"}
    rules = [settings([lane], recall_similarity=name) for lane, name in measures.items()]
    together = _similarities(plane, pl.concat(rules))
    alone = [_similarities(plane, rule) for rule in rules]
    assert together == alone[0] | alone[1] | alone[2]
    assert together[1, 0] == pytest.approx(0.5)
