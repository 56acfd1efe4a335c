"""Section 6.4: tests and intervals, with values worked by hand and coverage by simulation."""

import numpy as np
import polars as pl
import pytest

from reports.statistics import (
    FEWEST_FAMILIES,
    clustered_interval,
    holm,
    mcnemar,
    sign_flip,
    smallest_visible,
)


@pytest.mark.parametrize(
    ("helped", "harmed", "exact", "mid"),
    [
        (0, 0, 1.0, 1.0),
        # 2 * (1/2)**5 = 1/16, less (1/2)**5.
        (5, 0, 0.0625, 0.03125),
        # 2 * (1 + 4) / 16 = 10/16, less 4/16.
        (3, 1, 0.625, 0.375),
        (2, 2, 1.0, 1.0),
    ],
)
def test_mcnemar(helped: int, harmed: int, exact: float, mid: float) -> None:
    assert mcnemar(helped, harmed) == pytest.approx((exact, mid))
    assert mcnemar(harmed, helped) == pytest.approx((exact, mid))


def test_sign_flips_are_enumerated_where_there_are_few() -> None:
    # Of the 8 sign patterns of (1, 1, 1) only +++ and --- reach 3.
    assert sign_flip([1.0, 1.0, 1.0], seed=0) == 0.25
    assert sign_flip([], seed=0) == 1.0
    assert sign_flip([0.0, 0.0], seed=0) == 1.0


def test_many_sign_flips_are_sampled_with_a_seed_and_never_reach_zero() -> None:
    differences = [0.5] * 40
    assert sign_flip(differences, seed=1, rounds=999) == 0.001
    assert sign_flip(differences, seed=1) == sign_flip(differences, seed=1)


def test_holm_by_hand() -> None:
    # 0.01 * 3; max(0.03, 0.03 * 2); max(0.06, 0.04).
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def _pairs(differences: list[float], families: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "family": [f"family {number % families}" for number in range(len(differences))],
            "task": [f"task {number}" for number in range(len(differences))],
            "difference": differences,
        }
    )


def test_an_interval_is_given_only_where_it_means_something() -> None:
    assert clustered_interval(_pairs([], 1), 0).why_none == "no pairs"
    few = clustered_interval(_pairs([1.0, 0.0, 1.0], 1), 0)
    assert (few.estimate, few.low, few.clusters) == (pytest.approx(2 / 3), None, 3)
    assert few.why_none == "fewer than 20 clusters"
    flat = clustered_interval(_pairs([0.5] * 30, 15), 0)
    assert flat.why_none == "no spread between clusters"


def test_clusters_are_families_from_ten_up_else_tasks() -> None:
    random = np.random.default_rng(0)
    differences = list(random.normal(size=60))
    assert clustered_interval(_pairs(differences, 12), 0).clusters == 12
    assert clustered_interval(_pairs(differences, 3), 0).clusters == 60


def test_the_interval_is_seeded_and_holds_its_estimate() -> None:
    differences = list(np.random.default_rng(3).normal(0.2, 1.0, size=80))
    one, again = (clustered_interval(_pairs(differences, 20), 5) for _ in range(2))
    assert one == again
    assert one.low is not None
    assert one.high is not None
    assert one.estimate is not None
    assert one.low < one.estimate < one.high


@pytest.mark.slow
@pytest.mark.parametrize(("families", "tasks"), [(20, 8), (FEWEST_FAMILIES, 8), (3, 8)])
def test_intervals_cover_and_the_null_rejects_as_they_say(families: int, tasks: int) -> None:
    """500 simulated comparisons of rounded differences with family effects: 95% intervals cover
    between 92 and 98 of 100 (two standard errors around 95), and miss 0 under the null as often."""
    random = np.random.default_rng(11)
    by_family = families >= 10
    effect = 0.15 if by_family else 0.0

    def drawn(size: tuple[int, ...], mean: float) -> np.ndarray:
        own = random.normal(0, effect, size=(*size[:-1], 1))
        values: np.ndarray = np.clip(np.round(mean + own + random.normal(0, 0.5, size)), -1, 1)
        return values

    for mean in (0.0, 0.1):
        true = float(drawn((200_000, 8), mean).mean())
        covered = given = 0
        for round_number in range(500):
            values = drawn((families, tasks), mean)
            frame = pl.DataFrame(
                {
                    "family": np.repeat([f"f{number}" for number in range(families)], tasks),
                    "task": [f"t{number}" for number in range(families * tasks)],
                    "difference": values.ravel(),
                }
            )
            interval = clustered_interval(frame, round_number, rounds=800)
            if interval.low is not None and interval.high is not None:
                given += 1
                covered += interval.low <= true <= interval.high
        assert given > 480
        assert 0.92 <= covered / given <= 0.98


def test_more_pairs_show_smaller_differences() -> None:
    assert smallest_visible(0, 0) == 1.0
    assert smallest_visible(1000, 300) < smallest_visible(100, 30) < smallest_visible(20, 6)
    # n = 100, psi = 0.3: d = (1.96 * 0.548 + 0.842 * sqrt(0.3 - d**2)) / 10.
    visible = smallest_visible(100, 30)
    assert visible == pytest.approx(
        (1.96 * 0.5477 + 0.8416 * (0.3 - visible**2) ** 0.5) / 10, abs=1e-3
    )
