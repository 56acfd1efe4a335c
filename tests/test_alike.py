"""Lanes that are alike: who stands for whom, and that sharing changes no row."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from memos_flow import alike
from memos_flow.alike import Alike


@pytest.fixture(autouse=True)
def _even_few_lanes_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "FEW", 0)


def _lanes(*lane_ids: int, **columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame({"lane_id": lane_ids, **columns})


def _standing(lanes: Alike) -> dict[int, int]:
    """Which lane stands for each."""
    return dict(lanes.lanes.iter_rows())


def test_lanes_with_equal_values_are_alike_and_the_lowest_stands_for_them() -> None:
    lanes = Alike.by(_lanes(3, 1, 2, 4, x=["a", "a", None, None], y=[[1], [1], [2], [2]]))
    assert _standing(lanes) == {1: 1, 2: 2, 3: 1, 4: 2}


def test_lanes_are_alike_only_if_every_part_says_so() -> None:
    first = Alike.by(_lanes(1, 2, 3, x=["a", "a", "b"]))
    assert _standing(Alike.by(first, _lanes(1, 2, 3, y=[1, 2, 2]))) == {1: 1, 2: 2, 3: 3}
    assert _standing(Alike.by(first, _lanes(1, 2, 3, y=[1, 1, 1]))) == {1: 1, 2: 1, 3: 3}


def test_a_lane_that_a_later_part_does_not_know_stays() -> None:
    known = Alike.by(_lanes(1, 2, 3, x=[0, 0, 0]))
    assert _standing(Alike.by(known, _lanes(2, 3, y=[1, 1]))) == {1: 1, 2: 2, 3: 2}


@pytest.mark.parametrize(
    ("rows", "standing"),
    [
        # In whatever order.
        ([(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a")], {1: 1, 2: 1, 3: 3}),
        # As often.
        ([(1, "a"), (1, "a"), (2, "a"), (3, "a")], {1: 1, 2: 2, 3: 2}),
        # Lanes without rows are like each other, not like one whose row says nothing.
        ([(1, None)], {1: 1, 2: 2, 3: 2}),
        ([], {1: 1, 2: 1, 3: 1}),
    ],
)
def test_lanes_with_equal_rows_are_alike(
    rows: list[tuple[int, str | None]], standing: dict[int, int]
) -> None:
    table = pl.DataFrame(rows, schema={"lane_id": pl.Int64, "x": pl.String}, orient="row")
    alone = Alike.alone(pl.Series([1, 2, 3]))
    assert _standing(alone.equal(table)) == standing


def test_rows_must_be_equal_in_every_table() -> None:
    alone = Alike.alone(pl.Series([1, 2, 3]))
    one, other = _lanes(1, 2, 3, x=[1, 1, 1]), _lanes(1, 2, 3, y=[1, 2, 2])
    assert _standing(alone.equal(one, other)) == {1: 1, 2: 2, 3: 2}


def test_what_stands_for_others_has_its_own_rows_judged_for_all() -> None:
    lanes = Alike.by(_lanes(1, 2, 3, x=["a", "a", "b"]))
    assert _standing(lanes.equal(_lanes(1, 3, y=[5, 5]))) == {1: 1, 2: 1, 3: 1}
    assert _standing(lanes.equal(_lanes(1, 3, y=[5, 6]))) == {1: 1, 2: 1, 3: 3}


def test_rows_go_to_the_lanes_that_stand_in_a_finer_division() -> None:
    coarse = Alike.by(_lanes(1, 2, 3, 4, x=["a", "a", "a", "b"]))
    fine = Alike.by(coarse, _lanes(1, 2, 3, 4, y=[1, 2, 2, 1]))
    rows = _lanes(1, 1, 4, z=["first", "second", "other"])
    wanted = _lanes(1, 1, 2, 2, 4, z=["first", "second", "first", "second", "other"])
    assert_frame_equal(fine.rows(rows, coarse), wanted)


def test_rows_of_lanes_that_do_not_take_part_are_left_out() -> None:
    everyone = Alike.alone(pl.Series([1, 2, 3]))
    some = Alike.by(_lanes(1, 3, x=[1, 2]))
    rows = _lanes(1, 2, 3, z=[10, 20, 30])
    assert_frame_equal(some.rows(rows, everyone), _lanes(1, 3, z=[10, 30]))


def test_few_lanes_stand_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "FEW", 2)
    assert _standing(Alike.by(_lanes(1, 2, x=[0, 0]))) == {1: 1, 2: 2}
    assert _standing(Alike.by(_lanes(1, 2, 3, x=[0, 0, 0]))) == {1: 1, 2: 1, 3: 1}
