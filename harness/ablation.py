"""Ablation: axes over settings become variants, thousands of them side by side in one run."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from random import Random
from typing import Any

import polars as pl
from omegaconf import DictConfig

from harness.configuration import SECTIONS, container, flattened, variants_frame, variants_of
from harness.errors import ConfigurationError

DESIGNS = ("grid", "one_at_a_time", "sample")
_SEED = 7


def axes_of(config: DictConfig) -> dict[str, list[Any]]:
    """Axis name to its values: dotted settings, or the joint ones that move several at once.

    Raises ConfigurationError for an axis that is no setting, or has no list of values.
    """
    joint = container(config.joint)
    known = [*_dotted({section: container(config[section]) for section in SECTIONS}), *joint]
    axes = _dotted(container(config.axes))
    if not axes:
        raise ConfigurationError(
            "axes: none given; expected e.g. axes.gate.theta_magnitude=[0.3,0.5] or "
            "ablation=salience"
        )
    for name, values in axes.items():
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise ConfigurationError(f"axes.{name}: no such setting{hint}")
        if not isinstance(values, list) or not values:
            raise ConfigurationError(f"axes.{name}: found {values!r}, expected a list of values")
        if len(set(map(str, values))) < len(values):
            raise ConfigurationError(f"axes.{name}: found {values!r}, a value is given twice")
    return axes


def _dotted(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            leaves |= _dotted(value, f"{name}.")
        else:
            leaves[name] = value
    return leaves


def points_of(axes: Mapping[str, Sequence[Any]], design: str, samples: int) -> list[dict[str, Any]]:
    """The combinations of values to try, by axis name; `one_at_a_time` leaves the others out."""
    if design == "one_at_a_time":
        return [{name: value} for name, values in axes.items() for value in values]
    if design == "grid":
        return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    # Latin hypercube: each axis is cut into as many strata as there are samples, and each stratum
    # is used once, in a seeded order of its own.
    random = Random(_SEED)
    columns = {}
    for name, values in axes.items():
        strata = [(number + random.random()) / samples for number in range(samples)]
        random.shuffle(strata)
        columns[name] = [values[int(place * len(values))] for place in strata]
    points = [{name: columns[name][number] for name in axes} for number in range(samples)]
    return list({_name(point): point for point in points}.values())


def ablated(config: DictConfig) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Schema Variants of every point beside the settings of `memory`, and the points themselves:
    `variant_id` and a column of texts per axis.

    The first setting of `memory` is what the axes change. Raises ConfigurationError for an axis
    that is not understood or a value that its setting does not allow.
    """
    if config.design not in DESIGNS:
        raise ConfigurationError(
            f"design: found {config.design!r}, expected one of {list(DESIGNS)}"
        )
    axes, joint = axes_of(config), container(config.joint)
    points = points_of(axes, config.design, config.samples)
    named = variants_frame(config)
    base = named.row(0, named=True)
    rows = []
    for point in points:
        changed = {
            _column(setting): value
            for axis, value in point.items()
            for setting in joint.get(axis, [axis])
        }
        rows.append({**base, **changed, "variant_id": _name(point), "judged": False})
    variants = pl.concat([named, variants_of(rows)])
    told = [
        {"variant_id": _name(point), **{axis: _shown(point.get(axis)) for axis in axes}}
        for point in points
    ]
    return variants, pl.DataFrame(told, schema=dict.fromkeys(["variant_id", *axes], pl.String))


def _name(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={_shown(value)}" for axis, value in point.items())


def _shown(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _column(setting: str) -> str:
    (column,) = flattened({setting.replace(".", "_"): 0})
    return column
