"""Statistics of paired comparisons, and what they cannot tell (section 6.4).

Seeds are averaged within a pair before any test. Nothing is claimed where the design carries no
claim: no interval without a spread, no test without a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

#: From so many families on, families are the clusters; below, tasks stratified by family.
FAMILIES_AS_CLUSTERS = 10
#: With fewer clusters the interval covers too little, by simulation: none is given.
FEWEST_FAMILIES, FEWEST_TASKS = 12, 20
#: Sign flips are enumerated up to so many pairs, sampled beyond.
_EXACT_PAIRS = 16


@dataclass(frozen=True)
class Interval:
    """A mean difference with its interval over clusters; the bounds are null where none holds."""

    estimate: float | None
    low: float | None
    high: float | None
    clusters: int
    why_none: str | None = None


def mcnemar(helped: int, harmed: int) -> tuple[float, float]:
    """Exact and mid-p two-sided p-values of McNemar's test for the discordant pairs.

    Exact: twice the smaller binomial tail at 1/2, at most 1. Mid-p: half the probability of the
    observed count less. Only where each side has one trial per pair. Without a discordant pair
    both are 1.
    """
    discordant = helped + harmed
    if discordant == 0:
        return 1.0, 1.0
    fewer = min(helped, harmed)
    tail = float(stats.binom.cdf(fewer, discordant, 0.5))
    point = comb(discordant, fewer) * 0.5**discordant
    return min(1.0, 2 * tail), min(1.0, 2 * tail - point)


def sign_flip(differences: Sequence[float], seed: int, rounds: int = 10_000) -> float:
    """Two-sided p-value of the paired permutation test: the share of sign flips whose mean is at
    least as far from 0 as the observed one.

    All flips of up to 16 non-zero differences, else `rounds` seeded ones with the observed one
    among them. Without a non-zero difference 1.
    """
    values = np.array([value for value in differences if value != 0], dtype=np.float64)
    if len(values) == 0:
        return 1.0
    observed = abs(values.sum()) - 1e-12
    if len(values) <= _EXACT_PAIRS:
        bits = np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1
        sums = (1 - 2 * bits) @ values
        return float((np.abs(sums) >= observed).mean())
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(rounds, len(values)))
    return float(((np.abs(signs @ values) >= observed).sum() + 1) / (rounds + 1))


def clustered_interval(
    pairs: pl.DataFrame, seed: int, confidence: float = 0.95, rounds: int = 4000
) -> Interval:
    """Bootstrap-t interval of the mean of `difference` over clusters.

    `pairs`: `family`, `task`, `difference` (one row per pair). Clusters are families from 10
    families up, else tasks, resampled within their family. A studentised bootstrap: each resample's
    deviation is divided by its own standard error over clusters.
    """
    if pairs.is_empty():
        return Interval(None, None, None, 0, "no pairs")
    by_family = pairs["family"].n_unique() >= FAMILIES_AS_CLUSTERS
    key = ["family"] if by_family else ["family", "task"]
    clusters = (
        pairs.group_by(key)
        .agg(total=pl.col("difference").sum(), size=pl.len())
        .sort(key)
        .with_columns(stratum=pl.lit(0) if by_family else pl.col("family").rank("dense") - 1)
    )
    totals, sizes = clusters["total"].to_numpy(), clusters["size"].to_numpy().astype(np.float64)
    strata = clusters["stratum"].to_numpy()
    estimate = float(totals.sum() / sizes.sum())
    count = len(totals)
    fewest = FEWEST_FAMILIES if by_family else FEWEST_TASKS
    if count < fewest:
        return Interval(estimate, None, None, count, f"fewer than {fewest} clusters")
    error = float(_standard_error(totals[None], sizes[None], strata)[0])
    if error <= 1e-12:
        return Interval(estimate, None, None, count, "no spread between clusters")
    chosen = _resampled(strata, rounds, seed)
    sums, weights = totals[chosen], sizes[chosen]
    means = sums.sum(axis=1) / weights.sum(axis=1)
    errors = _standard_error(sums, weights, strata)
    usable = errors > 1e-12
    if usable.mean() < 0.5:
        return Interval(estimate, None, None, count, "most resamples have no spread")
    ratios = (means[usable] - estimate) / errors[usable]
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(estimate, float(estimate - high * error), float(estimate - low * error), count)


def _resampled(strata: NDArray[np.int64], rounds: int, seed: int) -> NDArray[np.int64]:
    """Places of clusters, drawn with replacement within each stratum, one row per round."""
    random = np.random.default_rng(seed)
    columns = []
    for stratum in np.unique(strata):
        places = np.flatnonzero(strata == stratum)
        columns.append(random.choice(places, size=(rounds, len(places))))
    drawn: NDArray[np.int64] = np.concatenate(columns, axis=1)
    return drawn


def _standard_error(
    totals: NDArray[np.float64], sizes: NDArray[np.float64], strata: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Linearised standard error of the ratio sum(totals) / sum(sizes), one per row: the spread of
    the clusters' residuals within their strata."""
    mean = totals.sum(axis=1, keepdims=True) / sizes.sum(axis=1, keepdims=True)
    residuals = totals - mean * sizes
    ordered = np.sort(strata)
    variance = np.zeros(len(totals))
    for stratum in np.unique(ordered):
        part = residuals[:, ordered == stratum]
        number = part.shape[1]
        if number > 1:
            centred = part - part.mean(axis=1, keepdims=True)
            variance += number / (number - 1) * (centred**2).sum(axis=1)
    error: NDArray[np.float64] = np.sqrt(variance) / sizes.sum(axis=1)
    return error


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    if not p_values:
        return []
    adjusted = multipletests(p_values, method="holm")[1]
    return [float(value) for value in adjusted]


def smallest_visible(pairs: int, discordant: int, power: float = 0.8, level: float = 0.05) -> float:
    """The smallest difference of pass rates that McNemar's test at `level` would show with
    probability `power`, given the pairs and their discordance (normal approximation).

    d = (z_level * sqrt(psi) + z_power * sqrt(psi - d^2)) / sqrt(n), with psi the share of
    discordant pairs, by iteration. 1 where there is no pair.
    """
    if pairs == 0:
        return 1.0
    share = max(discordant, 1) / pairs
    level_z, power_z = stats.norm.ppf(1 - level / 2), stats.norm.ppf(power)
    visible = 0.0
    for _ in range(50):
        rest = max(share - visible**2, 0.0)
        visible = float((level_z * share**0.5 + power_z * rest**0.5) / pairs**0.5)
    return min(1.0, visible)
