"""Section 4.1: r_task from all feedback, and values back over the traces."""

import polars as pl
import pytest

from memos_flow.reward import episodes, valued_traces
from memos_flow.schemas import Episodes, Feedback, Trajectories, Trials
from tests.conftest import Settings
from tests.frames import frame


def _feedback(number: int, polarity: str, magnitude: float, **over: object) -> dict:
    return {
        "lane_id": 1,
        "feedback_id": number,
        "polarity": polarity,
        "magnitude": magnitude,
    } | over


def _r_task(*rows: dict, earlier: tuple[dict, ...] = ()) -> pl.DataFrame:
    trial = frame(Trials, [{"lane_id": 1, "step": 0}]).lazy()
    return episodes(frame(Feedback, rows).lazy(), frame(Feedback, earlier).lazy(), trial).collect()


def test_r_task_is_the_magnitude_weighted_mean_of_signed_magnitudes() -> None:
    # (1*1 - 0.5*0.5) / (1 + 0.5)
    result = _r_task(_feedback(0, "positive", 1.0), _feedback(1, "negative", 0.5))
    assert result["r_task"][0] == pytest.approx(0.5)


def test_r_task_is_zero_without_feedback_and_without_magnitude() -> None:
    assert _r_task()["r_task"].to_list() == [0.0]
    assert _r_task(_feedback(0, "negative", 0.0))["r_task"].to_list() == [0.0]


@pytest.mark.parametrize(
    "over", [{"channel": "implicit"}, {"duplicate": True}, {"quarantine": "attack"}]
)
def test_implicit_repeated_and_quarantined_feedback_does_not_count(over: dict) -> None:
    result = _r_task(_feedback(0, "positive", 1.0), _feedback(1, "negative", 1.0, **over))
    assert result["r_task"][0] == 1.0


def test_late_feedback_rescores_the_closed_episode() -> None:
    late = _feedback(3_000_000, "negative", 1.0, step=3, episode_step=0)
    earlier = _feedback(0, "positive", 1.0)
    trial = frame(Trials, [{"lane_id": 1, "step": 3}]).lazy()
    result = episodes(frame(Feedback, [late]).lazy(), frame(Feedback, [earlier]).lazy(), trial)
    closed = result.filter(pl.col("episode_step") == 0).collect()
    assert closed.select("updated_step", "r_task").rows() == [(3, 0.0)]


def test_a_payload_decides_the_outcome_before_a_text() -> None:
    said = _feedback(0, "positive", 1.0, outcome="pass", outcome_source="text")
    ruled = _feedback(1, "negative", 1.0, outcome="fail", outcome_source="payload")
    result = _r_task(said, ruled)
    assert result.select("outcome", "outcome_source").rows() == [("fail", "payload")]


def _values(settings: Settings, r_task: float, traces: list[dict], **over: object) -> pl.DataFrame:
    episode = frame(
        Episodes, [{"lane_id": 1, "episode_step": 0, "updated_step": 0, "r_task": r_task} | over]
    )
    trial = frame(Trials, [{"lane_id": 1, "step": 0, "execution_id": 7}])
    rows = [{"execution_id": 7, "position": index} | trace for index, trace in enumerate(traces)]
    return (
        valued_traces(
            episode.lazy(),
            trial.lazy(),
            frame(Trajectories, rows).lazy(),
            settings().lazy(),
            len(traces),
        )
        .sort("position")
        .collect()
    )


def test_values_fall_back_from_the_last_trace(settings: Settings) -> None:
    # V_2 = 1; V_1 = .5*1 + .5*.9*1 = .95; V_0 = .5*1 + .5*.9*.95 = .9275
    assert _values(settings, 1.0, [{}, {}, {}])["value"].to_list() == [0.9275, 0.95, 1.0]


def test_a_trace_may_bring_its_own_alpha(settings: Settings) -> None:
    # V_1 = -.8; V_0 = .1*-.8 + .9*.9*-.8 = -.728
    assert _values(settings, -0.8, [{"alpha": 0.1}, {}])["value"].to_list() == [-0.728, -0.8]


def test_doubling_equals_the_recursion_for_a_long_episode(settings: Settings) -> None:
    alphas = [0.1 * (index % 7) for index in range(37)]
    expected = [1.0]
    for alpha in reversed(alphas[:-1]):
        expected.append(alpha + (1 - alpha) * 0.9 * expected[-1])
    values = _values(settings, 1.0, [{"alpha": alpha} for alpha in alphas])["value"].to_list()
    assert values == pytest.approx(expected[::-1])


def test_negative_traces_sink_to_priority_zero(settings: Settings) -> None:
    assert _values(settings, -1.0, [{}])["priority"].to_list() == [0.0]


def test_priority_halves_with_every_half_life(settings: Settings) -> None:
    # 30 logical days after the episode
    assert _values(settings, 1.0, [{}], updated_step=30)["priority"].to_list() == [0.5]
