"""Decision repair (section 4.5): a better and a worse choice in the same context."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from memos_flow.repair import contexts, repair_lines, repairs
from memos_flow.schemas import (
    Feedback,
    Guidance,
    Policies,
    Repairs,
    Traces,
    Trajectories,
    Trials,
)
from tests.conftest import Settings
from tests.frames import frame

NOW = 3
#: What was done in the episodes of context `d|bash`: action, value. Step 3 is the one just lived.
HISTORY: Sequence[tuple[int, int, float]] = ((1, 11, 0.4), (2, 12, 0.2), (3, 13, -0.3))


def _lived(history: Sequence[tuple[int, int, float]]) -> pl.LazyFrame:
    """One trace per row, in its context; its number is also that of its execution."""
    traces = [
        {
            "lane_id": 1,
            "trace_id": number,
            "execution_id": number,
            "episode_step": step,
            "value": value,
        }
        for number, (step, _, value) in enumerate(history)
    ]
    actions = [
        {"execution_id": number, "action_text_id": action, "tool": "bash"}
        for number, (_, action, _) in enumerate(history)
    ]
    tasks = pl.LazyFrame(
        [{"lane_id": 1, "episode_step": step, "domain": "d"} for step in range(NOW + 1)],
        schema_overrides={"episode_step": pl.Int32},
    )
    trajectories = Trajectories.cast(frame(Trajectories, actions)).lazy()
    return contexts(frame(Traces, traces).lazy(), trajectories, tasks)


def _said(**over: Any) -> Any:
    row = {"lane_id": 1, "step": NOW, "episode_step": NOW, "feedback_id": 70}
    row |= {"polarity": "negative", "source": "verifier"}
    return Feedback.cast(frame(Feedback, [row | over])).lazy()


def _holding(*episodes: int, **over: Any) -> pl.LazyFrame:
    row = {"lane_id": 1, "policy_id": 5, "source_episode_ids": list(episodes), "check_kind": None}
    return Policies.cast(frame(Policies, [row | over])).lazy()


def _calls(errors: Sequence[str | None], tools: Sequence[str] | None = None) -> Any:
    """The calls of the trial just lived, as execution 900."""
    return Trajectories.cast(
        frame(
            Trajectories,
            [
                {"execution_id": 900, "position": number, "tool": tool, "error_code": error}
                for number, (error, tool) in enumerate(
                    zip(errors, tools or ["bash"] * len(errors), strict=True)
                )
            ],
        )
    ).lazy()


def _made(
    rules: pl.DataFrame,
    feedback: Any = None,
    calls: Any = None,
    lived: pl.LazyFrame | None = None,
    known: Any = None,
    policies: pl.LazyFrame | None = None,
) -> list[dict[str, Any]]:
    trial = {"lane_id": 1, "step": NOW, "execution_id": 900, "task": "t", "status": "unscored"}
    return (
        repairs(
            Feedback.create_empty().lazy() if feedback is None else feedback,
            Trials.cast(frame(Trials, [trial])).lazy(),
            Trajectories.create_empty().lazy() if calls is None else calls,
            _lived(HISTORY) if lived is None else lived,
            Repairs.create_empty().lazy() if known is None else known,
            _holding(NOW) if policies is None else policies,
            rules.lazy(),
        )
        .collect()
        .to_dicts()
    )


def test_blame_pairs_the_best_and_the_worst_of_the_context(settings: Settings) -> None:
    (made,) = _made(settings(), _said())

    assert made["context"] == "d|bash"
    assert (made["prefer_text_id"], made["avoid_text_id"]) == (11, 13)
    assert (made["best_trace_id"], made["worst_trace_id"]) == (0, 2)
    assert made["value_gap"] == pytest.approx(0.7)
    assert (made["feedback_id"], made["policy_ids"], made["step"]) == (70, [5], NOW)


@pytest.mark.parametrize(
    ("said", "least", "repaired"),
    [
        ({}, 0.7, True),
        ({}, 0.71, False),
        ({"source": "user"}, 0.71, True),
        ({"polarity": "positive"}, 0.7, False),
        ({"polarity": "neutral"}, 0.7, False),
        ({"channel": "implicit"}, 0.7, False),
        ({"duplicate": True}, 0.7, False),
        ({"quarantine": "attack"}, 0.7, False),
    ],
)
def test_a_small_gap_needs_a_person_and_only_blame_gives_occasion(
    settings: Settings, said: Mapping[str, Any], least: float, repaired: bool
) -> None:
    made = _made(settings(repair_value_gap=least), _said(**said))

    assert bool(made) == repaired


@pytest.mark.parametrize(
    ("errors", "burst"),
    [
        (["E", "E", "E"], True),
        (["E", "E"], False),
        (["E", "E", None, "E"], False),
        ([None, "E", "E", "E"], True),
    ],
)
def test_three_failures_of_one_tool_without_a_success_between(
    settings: Settings, errors: Sequence[str | None], burst: bool
) -> None:
    assert bool(_made(settings(), calls=_calls(errors))) == burst


@pytest.mark.parametrize(
    ("tools", "burst"),
    [
        (["bash", "edit", "bash", "edit", "bash"], True),
        (["bash", "edit", "bash", "edit", "edit", "bash"], False),
        (["bash", "edit", "read"], False),
    ],
)
def test_the_three_stand_within_five_calls_of_any_tool(
    settings: Settings, tools: Sequence[str], burst: bool
) -> None:
    errors = ["E" if tool == "bash" or len(tools) == 3 else None for tool in tools]

    made = _made(settings(), calls=_calls(errors, tools))

    assert bool(made) == burst
    assert all(row["feedback_id"] is None for row in made)


def test_a_burst_needs_the_gap_too(settings: Settings) -> None:
    assert not _made(settings(repair_value_gap=0.71), calls=_calls(["E", "E", "E"]))


def test_an_action_that_was_good_and_bad_is_neither(settings: Settings) -> None:
    lived = _lived([(0, 10, 0.9), (1, 11, 0.4), (2, 10, -0.8), (3, 13, -0.3)])

    (made,) = _made(settings(), _said(), lived=lived)

    assert (made["prefer_text_id"], made["avoid_text_id"]) == (11, 13)


def test_without_a_better_choice_or_a_holder_there_is_nothing_to_tell(settings: Settings) -> None:
    assert not _made(settings(), _said(), lived=_lived([(2, 12, -0.2), (3, 13, -0.9)]))
    assert not _made(settings(), _said(), policies=_holding(1, 2))
    assert not _made(settings(), _said(), policies=_holding(NOW, status="archived"))


@pytest.mark.parametrize(("cooldown", "repaired"), [(2, False), (1, True)])
def test_a_context_cools_down(settings: Settings, cooldown: int, repaired: bool) -> None:
    before = {"lane_id": 1, "context": "d|bash", "step": NOW - 2, "avoid_text_id": 13}
    known = Repairs.cast(frame(Repairs, [before])).lazy()

    assert bool(_made(settings(repair_cooldown_steps=cooldown), _said(), known=known)) == repaired
    other = known.with_columns(context=pl.lit("d|python"))
    assert _made(settings(repair_cooldown_steps=cooldown), _said(), known=other)


def test_it_can_be_switched_off_and_no_lane_hears_of_another(settings: Settings) -> None:
    assert not _made(settings(repair_enabled=False), _said())
    assert not _made(settings((1, 2)), _said(lane_id=2))
    assert not _made(settings((1, 2)), _said(), policies=_holding(NOW, lane_id=2))


def test_its_lines_reach_every_holder_once(settings: Settings) -> None:
    holders = pl.concat([_holding(NOW), _holding(2, NOW, policy_id=6), _holding(2, policy_id=7)])
    made = Repairs.cast(pl.DataFrame(_made(settings(), _said(), policies=holders))).lazy()
    known = {"lane_id": 1, "policy_id": 5, "kind": "avoid", "text_id": 13}
    guidance = Guidance.cast(frame(Guidance, [known])).lazy()

    added = repair_lines(made, guidance).collect()

    assert added.select("policy_id", "kind", "text_id", "feedback_id", "step").rows() == [
        (5, "prefer", 11, 70, NOW),
        (6, "prefer", 11, 70, NOW),
        (6, "avoid", 13, 70, NOW),
    ]
