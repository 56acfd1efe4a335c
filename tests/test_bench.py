"""The benchmark: what it measures on, and how it tells a goal that is reached."""

from pathlib import Path

import polars as pl
import pytest

from harness.bench import Figure, as_frames
from harness.bench_data import GROWN_STEP, drawn, plan_of, recorded, with_many
from harness.configuration import compose_config, variants_frame
from harness.loop import run
from harness.runs import mind_of
from harness.store import Store
from memos_flow.schemas import Policies


@pytest.mark.parametrize(
    ("value", "goal", "at_least", "met"),
    [
        (30.0, 30.0, False, True),
        (30.1, 30.0, False, False),
        (30.0, 30.0, True, True),
        (29.9, 30.0, True, False),
        (1.0, None, False, None),
    ],
)
def test_a_goal_is_a_bound(
    value: float, goal: float | None, at_least: bool, met: bool | None
) -> None:
    assert Figure("recall", value, "ms", goal, at_least=at_least).met is met


def test_the_tables_tell_goals_and_shares() -> None:
    row = {"measure": "recall", "value": 12345.6, "unit": "ms", "goal": 30, "at_least": False}
    stages = {"merge": 1.0, "recall": 3.0}

    figures, shares = as_frames({"figures": [row | {"met": False}], "stages": stages})

    assert figures.rows() == [("recall", "12,346", "ms", "≤ 30", "no")]
    assert shares.rows() == [("recall", 3.0, 0.75), ("merge", 1.0, 0.25)]
    _, none = as_frames({"figures": [], "stages": {}})
    assert none.is_empty()


def test_settings_are_drawn_anew_for_every_lane() -> None:
    variants = drawn(7)

    assert 2 < variants.height <= 7 + 1, "and the setting that they are variants of"
    assert variants["variant_id"].is_unique().all()


def test_a_grown_memory_is_a_run_that_goes_on(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    assert not recording.arms["simulated"].any()
    uri = str(tmp_path / "grown")

    with_many(recording, uri, 50)

    before = Store.open(uri).read("policies")
    made = before.filter(pl.col("field").str.starts_with("rows[].field_"))
    assert made["policy_id"].n_unique() == 50
    Policies.validate(before, cast=True)
    config = compose_config([])
    plan = plan_of(recording, variants_frame(config), tmp_path / "indexes")
    run(plan, mind_of(config), Store.open(uri))
    after = Store.open(uri)
    steps = after.read("trials")["step"]
    assert steps.max() > GROWN_STEP
    assert steps.n_unique() == steps.len() == recording.executions.height
