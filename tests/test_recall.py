"""Section 4.8: the four channels, their scores, floors, cuts and fates."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import polars as pl
import pytest

from memos_flow.library import Library
from memos_flow.recall import Known, recalled
from memos_flow.schemas import Policies, Skills, Traces, Trajectories, WorldModels
from memos_flow.texts import content_id
from tests.conftest import Plane, Settings
from tests.frames import frame

ANGLES = {"query": 0.0, "same": 0.0, "half": 60.0, "third": 70.5287794, "none": 90.0}


Rows = Sequence[Mapping[str, Any]]
#: Texts that none of the others is like.
SPREAD = {f"text {number}": number * 5.0 for number in range(6)}
#: A day old, with the half-life of 30 days.
RECENCY = 0.5 ** (1 / 30)


@pytest.fixture
def texts(plane: Plane) -> Library:
    return plane(ANGLES | SPREAD)


def _recalled(
    texts: Library,
    rules: pl.DataFrame,
    *,
    step: int = 1,
    query: str | None = "query",
    policies: Rows = (),
    skills: Rows = (),
    traces: Rows = (),
    models: Rows = (),
) -> pl.DataFrame:
    """What lane 1 recalls; ids count from 0, and `text` is the text that is searched."""

    def known(rows: Rows, id_name: str) -> list[dict[str, Any]]:
        return [
            {"lane_id": 1, id_name: number, "text_id": content_id(row["text"])}
            | {name: value for name, value in row.items() if name != "text"}
            for number, row in enumerate(rows)
        ]

    # The text of a trace is what was done in that position of execution 7.
    valued, acts = [], []
    for row in known(traces, "trace_id"):
        act = {"execution_id": 7, "position": row["trace_id"]}
        acts.append(act | {"action_text_id": row.pop("text_id")})
        valued.append(row | act)
    memory = Known(
        frame(Policies, known(policies, "policy_id")).lazy(),
        frame(Skills, known(skills, "skill_id")).lazy(),
        frame(Traces, valued).lazy(),
        frame(Trajectories, acts).lazy(),
        frame(WorldModels, known(models, "world_model_id")).lazy(),
    )
    starts = pl.LazyFrame(
        {"lane_id": [1], "step": [step], "query_text_id": [query and content_id(query)]},
        schema={"lane_id": pl.Int64, "step": pl.Int32, "query_text_id": pl.Int64},
    )
    return recalled(memory, starts, rules.lazy(), texts).collect()


def _items(
    texts: Library, settings: Settings, rows: list[dict], step: int = 1, **over: object
) -> pl.DataFrame:
    return _recalled(texts, settings(**over), step=step, policies=rows)


def _fates(items: pl.DataFrame, channel: str = "experience") -> dict[int, str]:
    return dict(items.filter(pl.col("channel") == channel).select("item_id", "fate").rows())


# The score, the floor and the cut, which are the same for all channels.


def test_the_score_is_the_weighted_sum_of_its_parts(texts: Library, settings: Settings) -> None:
    row = {"text": "half", "salience": 0.8, "gain": 0.3, "confidence": 0.6, "support": 10}
    item = _items(texts, settings, [row], step=30).row(0, named=True)
    # .45 * .5 + .25 * max(.8, .3) + .15 * .6 + .10 * .5**(30/30) + .05 * ln(11)/ln(11)
    assert item["query_similarity"] == pytest.approx(0.5)
    assert item["score"] == pytest.approx(0.225 + 0.2 + 0.09 + 0.05 + 0.05)


def test_below_the_similarity_floor_nothing_is_injected(texts: Library, settings: Settings) -> None:
    rows = [{"text": "none", "salience": 1.0}, {"text": "half"}]
    items = _items(texts, settings, rows, recall_min_similarity=0.1)
    assert dict(items.select("item_id", "fate").rows()) == {0: "below-floor", 1: "injected"}


def test_a_score_far_below_the_best_is_dropped(texts: Library, settings: Settings) -> None:
    rows = [
        {"text": "same", "salience": 1.0, "confidence": 1.0},
        {"text": "third", "salience": 0.0, "confidence": 0.0},
    ]
    # .45/3 + .05 * ln 2 / ln 11 + .10 * recency = .26 against .45 + .25 + .15 + ... = .96
    assert _items(texts, settings, rows, recall_floor_ratio=0.3)["fate"].to_list() == [
        "injected",
        "below-floor",
    ]


def test_the_cut_keeps_the_best_and_ties_go_to_the_older(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "half"}, {"text": "same"}, {"text": "half"}]
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
        {"text": "same", "status": "candidate", "confidence": 0.59},
        {"text": "same", "status": "candidate", "confidence": 0.6},
        {"text": "same", "status": "archived"},
    ]
    fates = dict(_items(texts, settings, rows).select("item_id", "fate").rows())
    assert fates == {0: "low-confidence", 1: "injected"}
    switched_off = _items(texts, settings, rows, recall_candidates=False)
    assert set(switched_off["fate"]) == {"low-confidence"}


def test_a_setting_without_avoidance_recall_bars_the_type(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "same", "experience_type": "failure_avoidance"}]
    assert _items(texts, settings, rows, recall_avoidance=False)["fate"].to_list() == [
        "type-switched-off"
    ]


def test_an_avoidance_stands_under_avoid_and_an_unverified_repair_under_check(
    texts: Library, settings: Settings
) -> None:
    kinds = ["success_pattern", "repair_validated", "preference"]
    kinds += ["failure_avoidance", "repair_instruction"]
    rows = [{"text": "same", "experience_type": kind} for kind in kinds]
    items = _items(texts, settings, rows).sort("item_id")
    assert items["section"].to_list() == ["do", "do", "do", "avoid", "check"]


def test_no_memory_recalls_nothing(texts: Library, settings: Settings) -> None:
    assert _items(texts, settings, [{"text": "same"}], recall_packet="none").is_empty()


def test_without_a_query_nothing_is_similar(texts: Library, settings: Settings) -> None:
    rules = settings(recall_min_similarity=0.0)
    items = _recalled(texts, rules, query=None, policies=[{"text": "same"}])
    assert items["query_similarity"].to_list() == [0.0]


def test_the_task_it_was_learned_in_counts_by_the_context_weight(
    texts: Library, settings: Settings
) -> None:
    # The text is like the query by .5, the task it was learned in by 1: .75 * 1 + .25 * .5
    rows = [{"text": "half", "context_text_id": content_id("same")}, {"text": "half"}]
    items = _items(texts, settings, rows, recall_context_weight=0.75).sort("item_id")
    assert items["query_similarity"].to_list() == pytest.approx([0.875, 0.5])


def test_an_experience_whose_field_the_query_names_is_more_similar(
    plane: Plane, settings: Settings
) -> None:
    library = plane({"sum the net_amount column": 0.0, "half": 60.0})
    rows = [
        {"text": "half", "field": "rows[].net_amount"},
        {"text": "half", "field": "rows[].currency"},
        {"text": "half"},
    ]
    items = _recalled(
        library,
        settings(recall_field_bonus=0.2),
        query="sum the net_amount column",
        policies=rows,
    ).sort("item_id")
    assert items["query_similarity"].to_list() == pytest.approx([0.7, 0.5, 0.5])


# The four channels.


def test_each_channel_has_its_own_places(texts: Library, settings: Settings) -> None:
    items = _recalled(
        texts,
        settings(),
        policies=[{"text": "same"}] * 6,
        skills=[{"text": "same"}] * 6,
        traces=[{"text": text, "value": 0.5} for text in SPREAD],
        models=[{"text": "same"}] * 6,
    )
    counts = items.group_by("channel", "fate").len().rows()
    assert {(channel, fate): number for channel, fate, number in counts} == {
        ("skill", "injected"): 3,
        ("skill", "top-k"): 3,
        ("experience", "injected"): 5,
        ("experience", "top-k"): 1,
        ("trace", "injected"): 3,
        ("trace", "top-k"): 3,
        ("world_model", "injected"): 2,
        ("world_model", "top-k"): 4,
    }


def test_the_places_of_a_channel_are_a_setting(texts: Library, settings: Settings) -> None:
    rules = settings(recall_skills=1, recall_world_models=0)
    items = _recalled(
        texts, rules, skills=[{"text": "same"}] * 2, models=[{"text": "same"}], policies=[]
    )
    assert _fates(items, "skill") == {0: "injected", 1: "top-k"}
    assert _fates(items, "world_model") == {0: "top-k"}


def test_the_best_of_one_channel_sets_no_floor_for_another(
    texts: Library, settings: Settings
) -> None:
    items = _recalled(
        texts,
        settings(recall_floor_ratio=0.9),
        policies=[{"text": "same", "salience": 1.0, "confidence": 1.0}],
        models=[{"text": "third"}],
    )
    assert _fates(items, "world_model") == {0: "injected"}


def test_a_skill_is_scored_by_its_success_and_its_anchors(
    texts: Library, settings: Settings
) -> None:
    skill = {"text": "half", "tried": 2, "passed": 2, "anchor_policy_ids": [0, 1]}
    items = _recalled(texts, settings(), skills=[skill])
    # eta = (2 + 1) / (2 + 2); support = ln(1 + 2) / ln 11
    eta, support = 0.75, log(3) / log(11)
    assert items["score"].item() == pytest.approx(
        0.45 * 0.5 + 0.25 * eta + 0.15 * eta + 0.10 * RECENCY + 0.05 * support
    )


def test_a_skill_never_tried_has_even_odds(texts: Library, settings: Settings) -> None:
    items = _recalled(texts, settings(), skills=[{"text": "half"}])
    assert items.select("salience_or_gain", "confidence").row(0) == (0.5, 0.5)


def test_an_archived_skill_is_no_candidate(texts: Library, settings: Settings) -> None:
    skills = [{"text": "same", "status": status} for status in ("archived", "candidate", "active")]
    assert _fates(_recalled(texts, settings(), skills=skills), "skill") == {
        1: "injected",
        2: "injected",
    }


def test_a_trace_is_scored_by_its_value(texts: Library, settings: Settings) -> None:
    items = _recalled(texts, settings(), traces=[{"text": "half", "value": 0.8}])
    support = log(2) / log(11)
    assert items["score"].item() == pytest.approx(
        0.45 * 0.5 + 0.25 * 0.8 + 0.15 * 0.5 + 0.10 * RECENCY + 0.05 * support
    )


def test_only_traces_of_positive_value_are_candidates(texts: Library, settings: Settings) -> None:
    values = {"text 0": -0.5, "text 1": 0.0, "text 2": 0.1}
    traces = [{"text": text, "value": value} for text, value in values.items()]
    assert _fates(_recalled(texts, settings(), traces=traces), "trace") == {2: "injected"}


def test_of_equal_traces_the_one_of_highest_value_is_a_candidate(
    texts: Library, settings: Settings
) -> None:
    traces = [{"text": "same", "value": value} for value in (0.2, 0.9, 0.5)]
    assert _fates(_recalled(texts, settings(), traces=traces), "trace") == {1: "injected"}


def test_a_world_model_is_scored_by_its_confidence_and_its_sources(
    texts: Library, settings: Settings
) -> None:
    model = {"text": "half", "confidence": 0.6, "source_policy_ids": [0, 1, 2]}
    items = _recalled(texts, settings(), models=[model])
    support = log(4) / log(11)
    assert items["score"].item() == pytest.approx(
        0.45 * 0.5 + 0.25 * 0.6 + 0.15 * 0.6 + 0.10 * RECENCY + 0.05 * support
    )


def test_an_archived_world_model_is_no_candidate(texts: Library, settings: Settings) -> None:
    models = [{"text": "same", "status": "archived"}]
    assert _recalled(texts, settings(), models=models).is_empty()


# Provenance.

#: Built in step 3 from experiences 0 and 1.
SKILL = {"text": "same", "built_step": 3, "updated_step": 3, "source_policy_ids": [0, 1]}


def test_a_source_that_the_skill_is_as_new_as_is_dropped(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "same", "updated_step": 2}, {"text": "same", "updated_step": 3}]
    items = _recalled(texts, settings(), step=5, skills=[SKILL], policies=rows)
    assert _fates(items) == {0: "covered-by-skill", 1: "covered-by-skill"}


def test_of_a_newer_source_only_what_came_after_the_skill_is_new(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "same"}, {"text": "same", "updated_step": 4}]
    items = _recalled(texts, settings(), step=5, skills=[SKILL], policies=rows)
    newer = items.filter((pl.col("channel") == "experience") & (pl.col("item_id") == 1))
    assert newer.select("fate", "after_step").row(0) == ("injected", 3)


def test_an_experience_that_is_no_source_is_injected_whole(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "same", "policy_id": 2}]
    items = _recalled(texts, settings(), step=5, skills=[SKILL], policies=rows)
    own = items.filter(pl.col("channel") == "experience")
    assert own.select("fate", "after_step").row(0) == ("injected", None)


def test_of_two_skills_the_newer_build_counts(texts: Library, settings: Settings) -> None:
    skills = [SKILL, SKILL | {"built_step": 4, "updated_step": 4}]
    rows = [{"text": "same", "updated_step": 4}]
    items = _recalled(texts, settings(), step=5, skills=skills, policies=rows)
    assert _fates(items) == {0: "covered-by-skill"}


def test_the_dropped_experience_leaves_its_place_to_the_next(
    texts: Library, settings: Settings
) -> None:
    rows = [{"text": "same"}, {"text": "half", "policy_id": 5}, {"text": "third", "policy_id": 6}]
    rules = settings(recall_experiences=1)
    items = _recalled(texts, rules, step=5, skills=[SKILL], policies=rows)
    own = items.filter(pl.col("channel") == "experience")
    assert own.select("item_id", "rank", "fate").rows() == [
        (5, 1, "injected"),
        (6, 2, "top-k"),
        (0, 3, "covered-by-skill"),
    ]


def test_a_dropped_experience_sets_no_floor(texts: Library, settings: Settings) -> None:
    rows = [
        {"text": "same", "salience": 1.0, "confidence": 1.0},
        {"text": "third", "policy_id": 5},
    ]
    rules = settings(recall_floor_ratio=0.5)
    items = _recalled(texts, rules, step=5, skills=[SKILL], policies=rows)
    assert _fates(items)[5] == "injected"


def test_a_skill_that_is_not_recalled_covers_nothing(texts: Library, settings: Settings) -> None:
    rules = settings(recall_skills=0)
    items = _recalled(texts, rules, step=5, skills=[SKILL], policies=[{"text": "same"}])
    assert _fates(items) == {0: "injected"}


def test_a_skill_below_the_floor_covers_nothing(texts: Library, settings: Settings) -> None:
    skill = SKILL | {"text": "none"}
    items = _recalled(texts, settings(), step=5, skills=[skill], policies=[{"text": "same"}])
    assert _fates(items) == {0: "injected"}


def test_without_provenance_dedupe_both_are_injected(texts: Library, settings: Settings) -> None:
    rules = settings(recall_provenance_dedupe=False)
    rows = [{"text": "same"}, {"text": "same", "updated_step": 4}]
    items = _recalled(texts, rules, step=5, skills=[SKILL], policies=rows)
    assert _fates(items) == {0: "injected", 1: "injected"}
    assert items["after_step"].is_null().all()


def test_a_trace_with_the_number_of_a_source_is_not_dropped(
    texts: Library, settings: Settings
) -> None:
    items = _recalled(
        texts, settings(), step=5, skills=[SKILL], traces=[{"text": "half", "value": 0.5}]
    )
    assert _fates(items, "trace") == {0: "injected"}


# Reciprocal rank fusion and maximal marginal relevance.


def test_fused_ranks_as_worked_on_paper(plane: Plane, settings: Settings) -> None:
    library = plane({"red green": 0.0, "blue": 10.0, "green red": 40.0, "red blue": 20.0})
    rows = [{"text": "blue"}, {"text": "green red"}, {"text": "red blue"}]
    rules = settings(recall_ranker="rrf_mmr", recall_rrf_k=60)
    items = _recalled(library, rules, query="red green", policies=rows).sort("item_id")
    # By vector 0, 2, 1; by words 1 (both), 2 (one), 0 (none).
    assert items["score"].to_list() == pytest.approx(
        [1 / 61 + 1 / 63, 1 / 63 + 1 / 61, 1 / 62 + 1 / 62], abs=1e-9
    )


def test_equal_ranks_go_to_the_older(texts: Library, settings: Settings) -> None:
    rules = settings(recall_ranker="rrf_mmr", recall_rrf_k=60)
    items = _recalled(texts, rules, policies=[{"text": "same"}] * 2).sort("item_id")
    assert items["score"].to_list() == pytest.approx([2 / 61, 2 / 62], abs=1e-9)


NEAR = {"query": 0.0, "first": 0.0, "double": 1.0, "another": 60.0}


def _near_double(plane: Plane, settings: Settings, **over: object) -> dict[int, str]:
    rows = [{"text": "first"}, {"text": "double"}, {"text": "another"}]
    rules = settings(recall_experiences=2, **over)
    return _fates(_recalled(plane(NEAR), rules, policies=rows))


def test_a_different_text_is_preferred_to_a_near_duplicate(
    plane: Plane, settings: Settings
) -> None:
    # The second: .7 * 61/62 - .3 * cos 1 = .389 against .7 * 61/63 - .3 * cos 60 = .528
    fates = _near_double(plane, settings, recall_ranker="rrf_mmr", recall_mmr_lambda=0.7)
    assert fates == {0: "injected", 1: "top-k", 2: "injected"}


def test_with_lambda_one_only_relevance_counts(plane: Plane, settings: Settings) -> None:
    fates = _near_double(plane, settings, recall_ranker="rrf_mmr", recall_mmr_lambda=1.0)
    assert fates == {0: "injected", 1: "injected", 2: "top-k"}


def test_the_linear_ranker_does_not_look_for_difference(plane: Plane, settings: Settings) -> None:
    assert _near_double(plane, settings) == {0: "injected", 1: "injected", 2: "top-k"}


def test_a_lane_of_the_other_ranker_changes_nothing(texts: Library, settings: Settings) -> None:
    rows = [{"text": "half"}, {"text": "same"}]
    beside = pl.concat([settings([1]), settings([2], recall_ranker="rrf_mmr")])
    both = _recalled_by_both(texts, beside, rows)
    assert both.filter(pl.col("lane_id") == 1).equals(_recalled(texts, settings(), policies=rows))


def _recalled_by_both(texts: Library, rules: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Lanes 1 and 2 know the same experiences."""
    policies = [
        {"lane_id": lane, "policy_id": number, "text_id": content_id(row["text"])}
        for lane in (1, 2)
        for number, row in enumerate(rows)
    ]
    memory = Known(
        frame(Policies, policies).lazy(),
        *(frame(schema, []).lazy() for schema in (Skills, Traces, Trajectories, WorldModels)),
    )
    starts = rules.lazy().select(
        "lane_id", step=pl.lit(1, pl.Int32), query_text_id=pl.lit(content_id("query"))
    )
    return recalled(memory, starts, rules.lazy(), texts).collect()


def test_rank_fusion_without_places_injects_nothing(texts: Library, settings: Settings) -> None:
    rules = settings(recall_ranker="rrf_mmr", recall_experiences=0)
    items = _recalled(texts, rules, policies=[{"text": "same"}])
    assert _fates(items) == {0: "top-k"}


def test_a_name_inside_another_word_is_not_the_field(plane: Plane, settings: Settings) -> None:
    library = plane({"update the ledger": 0.0, "half": 60.0})
    rows = [{"text": "half", "field": "rows[].date"}]
    items = _recalled(library, settings(), query="update the ledger", policies=rows)
    assert items["query_similarity"].item() == pytest.approx(0.5)


def test_a_two_character_chinese_field_is_named(plane: Plane, settings: Settings) -> None:
    library = plane({"汇总金额": 0.0, "half": 60.0})
    rows = [{"text": "half", "field": "rows[].金额"}]
    items = _recalled(library, settings(), query="汇总金额", policies=rows)
    assert items["query_similarity"].item() > 0.5
