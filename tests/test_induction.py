"""Section 4.5: what positive traces of several episodes have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from memos_flow.induction import associated, eligible_traces, induced, pooled, regained
from memos_flow.library import Library
from memos_flow.schemas import CandidatePool, Policies, Traces, Trajectories
from memos_flow.texts import content_id
from memos_flow.wording import Wording
from tests.conftest import Plane, Settings
from tests.frames import frame
from tests.lane import Lane

SORT = "Sort the rows by cusip."
SUM = "Sum the values per issuer."
READ = "Read the table as text."
#: The lesson of the success `SORT`; the cosine of the others with it is .64, .5 and 0.
ANGLES = {SORT: 0.0, SUM: 50.2, READ: 60.0, "Delete the cache.": 90.0}


@pytest.fixture
def library_of_angles(plane: Plane) -> Library:
    return plane(ANGLES)


def _traces(rows: Sequence[Mapping[str, Any]]) -> pl.LazyFrame:
    plain = [
        {"lane_id": 1, "trace_id": number, "execution_id": number, "episode_step": number} | row
        for number, row in enumerate(rows)
    ]
    names = set(Traces.column_names())
    return frame(Traces, [{k: v for k, v in row.items() if k in names} for row in plain]).lazy()


def _actions(rows: Sequence[Mapping[str, Any]]) -> Any:
    names = ("action", "tool", "error_code")
    told = [{name: row.get(name) for name in names} for row in rows]
    return Trajectories.cast(
        frame(
            Trajectories,
            [
                {"execution_id": number, "action_text_id": content_id(row.pop("action") or SORT)}
                | row
                for number, row in enumerate(told)
            ],
        )
    ).lazy()


def _tasks(number: int, domain: str | None = "d") -> pl.LazyFrame:
    rows = [
        {
            "lane_id": 1,
            "episode_step": step,
            "domain": domain,
            "tool": "csv",
            "file_names": ["table.csv"],
            "query_text_id": 7,
        }
        for step in range(number)
    ]
    return pl.LazyFrame(
        rows, schema_overrides={"episode_step": pl.Int32, "domain": pl.String, "tool": pl.String}
    )


def _eligible(
    rules: pl.DataFrame, rows: Sequence[Mapping[str, Any]], domain: str | None = "d"
) -> pl.LazyFrame:
    return eligible_traces(_traces(rows), _actions(rows), _tasks(len(rows), domain), rules.lazy())


def _success(**over: Any) -> pl.LazyFrame:
    row = {
        "lane_id": 1,
        "policy_id": 1,
        "experience_type": "success_pattern",
        "evidence_polarity": "positive",
        "skill_eligible": True,
        "domain": "d",
        "tool": "csv",
        "lesson_text_id": content_id(SORT),
        "check_kind": None,
    }
    return Policies.cast(frame(Policies, [row | over])).lazy()


NOTHING_RELEASED = CandidatePool.create_empty().lazy()


def test_a_trace_counts_from_the_least_value_on(settings: Settings) -> None:
    rows = [{"value": 0.0049}, {"value": 0.005}, {"value": -0.9}]

    usual = _eligible(settings(), rows).collect()
    absolute = _eligible(settings(induction_absolute_value=True), rows).collect()

    assert usual["trace_id"].to_list() == [1]
    assert sorted(absolute["trace_id"]) == [1, 2]


def test_the_signature_is_primary_tag_secondary_tag_tool_error_code(settings: Settings) -> None:
    rows = [{"value": 1.0, "tool": "python", "error_code": "E1"}, {"value": 1.0}]

    signatures = _eligible(settings(), rows).sort("trace_id").collect()["signature"]

    assert signatures.to_list() == ["d|csv|python|E1", "d|csv||"]


def test_what_is_untagged_and_lanes_without_induction_pool_nothing(settings: Settings) -> None:
    rows = [{"value": 1.0}]

    assert _eligible(settings(), rows, domain=None).collect().is_empty()
    assert _eligible(settings(induction_enabled=False), rows).collect().is_empty()


@pytest.mark.parametrize(
    ("action", "task_tool", "joins"),
    [
        # 0.640 + 0.10 * 2/4 (primary and secondary tag) reaches 0.69; with the primary tag alone
        # it is 0.665, and 0.50 never gets there.
        (SUM, "csv", True),
        (SUM, "other", False),
        (READ, "csv", False),
        (SORT, "other", True),
    ],
)
def test_a_trace_repeats_a_success_by_cosine_and_signature(
    settings: Settings, library_of_angles: Library, action: str, task_tool: str, joins: bool
) -> None:
    rules = settings(induction_association_similarity=0.69)
    fresh = _eligible(rules, [{"value": 1.0, "action": action}]).with_columns(
        task_tool=pl.lit(task_tool)
    )

    found = associated(fresh, _success(), NOTHING_RELEASED, library_of_angles).collect()

    assert found.rows() == ([(1, 0, 1)] if joins else [])


def test_of_another_primary_tag_or_error_code_it_never_does(
    settings: Settings, library_of_angles: Library
) -> None:
    rules = settings(induction_association_similarity=0.0)
    rows = [{"value": 1.0, "error_code": "E1"}, {"value": 1.0, "error_code": "E2"}, {"value": 1.0}]
    fresh = _eligible(rules, rows)
    released = CandidatePool.cast(
        frame(CandidatePool, [{"lane_id": 1, "signature": "d|csv||E1", "policy_id": 1}])
    ).lazy()

    def traces(policies: pl.LazyFrame, pool: Any) -> list[int]:
        return associated(fresh, policies, pool, library_of_angles).collect()["trace_id"].to_list()

    assert traces(_success(), released) == [0]
    assert traces(_success(), NOTHING_RELEASED) == [0, 1, 2], "of a lesson no error code is known"
    assert traces(_success(domain="e"), NOTHING_RELEASED) == []


def test_only_a_standing_success_is_repeated(
    settings: Settings, library_of_angles: Library
) -> None:
    fresh = _eligible(settings(), [{"value": 1.0}])
    avoidance = {
        "experience_type": "failure_avoidance",
        "evidence_polarity": "negative",
        "skill_eligible": False,
    }

    for policies in (_success(**avoidance), _success(status="archived")):
        found = associated(fresh, policies, NOTHING_RELEASED, library_of_angles)
        assert found.collect().is_empty()


def _pool(
    rules: pl.DataFrame,
    rows: Sequence[Mapping[str, Any]],
    known: Any = NOTHING_RELEASED,
    step: int = 9,
) -> pl.DataFrame:
    none = pl.LazyFrame(schema={"lane_id": pl.Int64, "trace_id": pl.Int64, "policy_id": pl.Int64})
    starts = pl.LazyFrame({"lane_id": [1], "step": [step]}, schema_overrides={"step": pl.Int32})
    return pooled(_eligible(rules, rows), none, known, starts).collect()


def test_two_distinct_episodes_make_a_quorum_and_two_traces_of_one_do_not(
    settings: Settings,
) -> None:
    twice = [{"value": 1.0, "episode_step": 0}, {"value": 1.0, "episode_step": 0}]
    apart = [{"value": 1.0, "episode_step": 0}, {"value": 1.0, "episode_step": 1}]

    waiting, released = _pool(settings(), twice), _pool(settings(), apart)

    assert waiting["policy_id"].to_list() == [None, None]
    assert released["released_step"].to_list() == [9, 9]
    assert released["policy_id"].n_unique() == 1
    three = _pool(settings(induction_min_episodes=3), apart)
    assert three["policy_id"].to_list() == [None, None]


def test_what_waits_is_completed_by_a_later_episode_of_its_signature(settings: Settings) -> None:
    known = CandidatePool.cast(
        frame(
            CandidatePool,
            [
                {"lane_id": 1, "signature": "d|csv||", "trace_id": 50, "episode_step": 3},
                {"lane_id": 1, "signature": "d|csv|bash|", "trace_id": 51, "episode_step": 4},
                {"lane_id": 2, "signature": "d|csv||", "trace_id": 52, "episode_step": 5},
            ],
        )
    ).lazy()

    rows = _pool(settings(), [{"value": 1.0}], known)

    released = rows.filter(pl.col("policy_id").is_not_null())
    assert sorted(released["trace_id"]) == [0, 50]
    assert set(rows["lane_id"]) == {1}
    gone = known.filter(pl.col("trace_id") == 50).with_columns(
        released_step=pl.lit(4, pl.Int32), policy_id=pl.lit(9, pl.Int64)
    )
    again = _pool(settings(), [{"value": 1.0}], CandidatePool.cast(gone))
    assert again["policy_id"].to_list() == [None], "what was released completes nothing"


def test_a_bucket_becomes_one_candidate_of_the_actions_that_recur(
    settings: Settings, library_of_angles: Library
) -> None:
    rows = [
        {"value": 0.3, "action": SORT, "episode_step": 0},
        {"value": 0.9, "action": READ, "episode_step": 0},
        {"value": 0.6, "action": SORT, "episode_step": 1},
    ]
    rules = settings()

    def made(over: Mapping[str, float]) -> dict[str, Any]:
        changed = [row | over for row in rows]
        pool = CandidatePool.cast(_pool(rules, changed)).lazy()
        valued = _eligible(rules, changed)
        (row,) = induced(pool, valued, _tasks(3), library_of_angles).collect().to_dicts()
        return row

    usual = made({})
    assert usual["lesson_text_id"] == content_id(SORT)
    assert (usual["experience_type"], usual["source"]) == ("success_pattern", "induction")
    assert usual["source_trace_ids"] == [0, 1, 2]
    assert usual["source_episode_ids"] == [0, 1]
    assert usual["support"] == 2
    # mean(.3, .9, .6) - .5
    assert usual["gain"] == pytest.approx(0.1)
    assert usual["status"] == "active"
    poor = made({"value": 0.4})
    assert poor["gain"] == pytest.approx(-0.1)
    assert poor["status"] == "candidate"


@pytest.mark.parametrize(
    ("own", "others", "before", "gain", "status"),
    [
        # mean .7; the prior is the pool's mean .45; without: (5 * .45 + .4) / 7 = .378571
        ([0.6, 0.8], [0.1, 0.3], 0.1, 0.6 * 0.1 + 0.4 * (0.7 - 2.65 / 7), "active"),
        # Softmax at .5: weights e, e, e^2; none without: the prior, the pool's mean cut at .5
        ([0.5, 0.5, 1.0], [], 0.0, 0.4 * (10.107338 / 12.825620 - 0.5), "active"),
        # The pool's mean .1 is lifted to .2
        ([0.1, 0.1], [], 0.0, 0.4 * (0.1 - 0.2), "candidate"),
        # (5 * .5 + 4.5) / 10 = .7: worth less with it than without
        ([0.05], [0.9] * 5, 0.0, 0.4 * (0.05 - 0.7), "archived"),
    ],
)
def test_gain_moves_to_what_traces_with_it_are_worth(
    settings: Settings,
    own: list[float],
    others: list[float],
    before: float,
    gain: float,
    status: str,
) -> None:
    values = [{"value": value} for value in [*own, *others]]
    valued = _eligible(settings(), values)
    held = list(range(len(own)))
    policies = _success(
        source="induction", status="candidate", gain=before, source_trace_ids=held[:-1]
    )
    joined = pl.LazyFrame({"lane_id": [1], "trace_id": held[-1:], "policy_id": [1]})
    starts = pl.LazyFrame({"lane_id": [1], "step": [9]}, schema_overrides={"step": pl.Int32})

    (row,) = regained(policies, joined, valued, starts).collect().to_dicts()

    assert row["gain"] == pytest.approx(gain, abs=1e-5)
    assert row["status"] == status
    assert row["source_trace_ids"] == held
    assert row["updated_step"] == 9


def test_a_lane_induces_from_its_own_episodes_without_a_word_said(
    wording: Wording, settings: Settings
) -> None:
    """Passed trials that repeat an action, and nothing that feedback could teach."""
    lane = Lane(wording, settings((1, 2), feedback_enabled=False), lanes=(1, 2), domain="d")
    lane.rules = lane.rules.with_columns(induction_enabled=pl.col("lane_id") == 1)

    lane.live(True, actions=[SORT])
    assert lane.experiences.is_empty()
    tables = lane.live(True, actions=[SORT])

    (made,) = lane.experiences.to_dicts()
    assert (made["lane_id"], made["source"]) == (1, "induction")
    assert SORT in lane.told(tables, "guidance")
    third = lane.live(True, actions=[SORT])
    assert any(SORT in text for text in lane.told(third))
