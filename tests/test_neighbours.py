"""Very large memories: what an approximate index finds is what exact search would have found."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from harness.canonical import table_hashes
from harness.neighbours import Neighbours
from memos_flow.lexicon import Lexicon
from memos_flow.library import Library
from memos_flow.schemas import Packets, Policies
from memos_flow.texts import content_id, texts_frame
from memos_flow.wording import Wording
from tests.conftest import Settings
from tests.frames import frame
from tests.lane import Lane

_RANDOM = np.random.default_rng(7)
_SIDES = 64


@pytest.fixture
def library(lexicon: Lexicon) -> Library:
    """Unit vectors in many directions; a text's own is drawn from its number."""

    def embed(texts: list[str]) -> np.ndarray:
        drawn = [np.random.default_rng(int(text)).normal(size=_SIDES) for text in texts]
        vectors = np.array(drawn, dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return Library(embed, lexicon)


def _known(library: Library, count: int, lane: int = 1, **columns: object) -> pl.DataFrame:
    library.add(texts_frame(map(str, range(count))))
    return frame(
        Policies,
        [
            {"lane_id": lane, "policy_id": number, "text_id": content_id(str(number))}
            | {"lesson_text_id": content_id(str(number)), "context_text_id": None}
            | columns
            for number in range(count)
        ],
    )


def _queries(*texts: str | None, lane: int = 1, weight: float = 0.0) -> pl.LazyFrame:
    return pl.LazyFrame(
        {
            "lane_id": [lane] * len(texts),
            "step": [2] * len(texts),
            "text_id": [text and content_id(text) for text in texts],
            "weight": [weight] * len(texts),
        },
        schema={"lane_id": pl.Int64, "step": pl.Int32, "text_id": pl.Int64, "weight": pl.Float64},
    )


def _ids(policies: pl.LazyFrame) -> set[int]:
    return set(policies.collect()["policy_id"])


def test_a_small_memory_is_looked_at_as_a_whole(library: Library, tmp_path: Path) -> None:
    known = _known(library, 50)
    near = Neighbours(library, tmp_path / "indexes", exact_up_to=50)
    assert _ids(near.for_recall(known.lazy(), _queries("7"))) == set(range(50))
    assert near.approximate().collect().is_empty()
    assert not (tmp_path / "indexes").exists()


def test_of_a_large_memory_the_ten_nearest_are_found(library: Library, tmp_path: Path) -> None:
    known = _known(library, 3000)
    near = Neighbours(library, tmp_path, exact_up_to=1000)
    everything = library.vectors(known["text_id"])
    found = 0
    asked = [str(number) for number in _RANDOM.integers(3000, 6000, size=20)]
    library.add(texts_frame(asked))
    for text in asked:
        exact = np.argsort(-(everything @ library.vectors(pl.Series([content_id(text)]))[0]))[:10]
        listed = _ids(near.for_recall(known.lazy(), _queries(text)))
        assert len(listed) < 3000
        found += len(listed & set(exact.tolist()))
    assert found / 200 >= 0.95
    assert near.approximate().collect()["lane_id"].to_list() == [1]


def test_the_task_it_was_learned_in_counts_by_its_weight(library: Library, tmp_path: Path) -> None:
    # The experience whose own text is farthest from the query was learned in a task like it.
    known = _known(library, 2000)
    library.add(texts_frame(map(str, range(10_000, 12_001))))
    query = library.vectors(pl.Series([content_id("12000")]))[0]
    far = int(np.argmin(library.vectors(known["text_id"]) @ query))
    contexts = [content_id("12000" if n == far else str(10_000 + n)) for n in range(2000)]
    known = known.with_columns(context_text_id=pl.Series(contexts))
    near = Neighbours(library, tmp_path, exact_up_to=1000)
    assert far in _ids(near.for_recall(known.lazy(), _queries("12000", weight=0.7)))
    assert far not in _ids(near.for_recall(known.lazy(), _queries("12000", weight=0.0)))


def test_what_came_after_the_index_was_built_is_looked_at_besides(
    library: Library, tmp_path: Path
) -> None:
    known = _known(library, 2000)
    near = Neighbours(library, tmp_path, exact_up_to=1000)
    near.for_recall(known.lazy(), _queries("1"))
    newer = known.with_columns(
        updated_step=pl.when(pl.col("policy_id") >= 1990)
        .then(3)
        .otherwise("updated_step")
        .cast(pl.Int32)
    )
    assert set(range(1990, 2000)) <= _ids(near.for_recall(newer.lazy(), _queries("1")))


def test_without_a_query_nothing_old_is_near(library: Library, tmp_path: Path) -> None:
    near = Neighbours(library, tmp_path, exact_up_to=10)
    assert _ids(near.for_recall(_known(library, 300).lazy(), _queries(None))) == set()


def test_a_draft_meets_those_near_it_and_those_of_its_check(
    library: Library, tmp_path: Path
) -> None:
    known = _known(library, 2000).with_columns(
        check_kind=pl.when(pl.col("policy_id") == 77)
        .then(pl.lit("order"))
        .cast(Policies.create_empty().schema["check_kind"]),
        field=pl.when(pl.col("policy_id") == 77).then(pl.lit("rows[]")),
    )
    lessons = pl.DataFrame(
        {
            "lane_id": [1],
            "step": [2],
            "lesson_text_id": [content_id("4")],
            "check_kind": ["order"],
            "field": ["rows[]"],
        }
    ).cast({"check_kind": known.schema["check_kind"]})
    near = Neighbours(library, tmp_path, exact_up_to=1000)
    near.for_recall(known.lazy(), _queries("9"))
    found = _ids(near.for_matching(known.lazy(), lessons.lazy()))
    assert {4, 77} <= found
    assert len(found) < 2000


def test_other_lanes_are_left_whole(library: Library, tmp_path: Path) -> None:
    large, small = _known(library, 500), _known(library, 20, lane=2)
    near = Neighbours(library, tmp_path, exact_up_to=100)
    listed = near.for_recall(pl.concat([large, small]).lazy(), _queries("3")).collect()
    assert listed.filter(pl.col("lane_id") == 2).height == 20
    assert listed.filter(pl.col("lane_id") == 1).height < 500


def test_packets_of_such_lanes_are_marked_and_left_out_of_the_hash(
    wording: Wording, settings: Settings, tmp_path: Path
) -> None:
    lane = Lane(wording, settings(), domain="d")
    # Two lessons are a large memory for this one.
    lane.shortlist = Neighbours(lane.library, tmp_path, exact_up_to=1)
    first = lane.live(False, [{"text": "Do not skip negative amounts.", "polarity": "negative"}])
    lane.live(False, [{"text": "Next time, sort rows by cusip.", "polarity": "negative"}])
    third = lane.live(True)
    assert not first["packets"]["approximate"].any()
    assert third["packets"]["approximate"].all()
    assert any("negative amounts" in text for text in lane.told(third))
    exempt, counted = (table_hashes(step)["packets"] for step in (third, first))
    nothing = table_hashes({"packets": Packets.create_empty()})["packets"]
    assert exempt["hash"] == nothing["hash"]
    assert counted["hash"] != exempt["hash"]
