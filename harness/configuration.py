"""Configuration: Hydra's grammar, and no key that nothing knows."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import dataframely as dy
import polars as pl
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.errors import ConfigurationError
from harness.resources import CONF
from memos_flow.schemas import Variants

#: The sections of settings.yaml: what a variant may change.
SECTIONS = (
    "clock",
    "verdict",
    "feedback",
    "gate",
    "reward",
    "draft",
    "merge",
    "validation",
    "repair",
    "induction",
    "skills",
    "cognition",
    "recall",
    "injection",
)
#: One struct column instead of a column per weight.
_STRUCTS = frozenset({"verdict_weights"})
_OF_VARIANT = frozenset({"judged", "expected_fail"})
#: They change where and how results are shown, not what they are.
_WITHOUT_EFFECT = frozenset({"output", "run", "input", "format", "acceptance"})


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The configuration with the overrides of a command line.

    Raises ConfigurationError for a key or a group option that is not known (also one added with
    `+`), naming the nearest, and for whatever Hydra cannot read.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        groups = _groups()
        chosen = [override for override in parsed if _key(override) in groups]
        values = [override for override in parsed if _key(override) not in groups]
        for override in chosen:
            _check_options(override)
        known = _composed([_plain(override) for override in chosen])
        names = _known_keys(known)
        for override in values:
            _check_key(override, names)
        config = _composed([*map(_plain, chosen), *(f"++{_plain(value)}" for value in values)])
        OmegaConf.resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigurationError(first) from error
    return config


def variants_frame(config: DictConfig) -> pl.DataFrame:
    """Schema Variants: one row per setting under `memory`, in the order given.

    Raises ConfigurationError naming the dotted key of a value of the wrong type or out of range.
    """
    base = {section: config[section] for section in SECTIONS}
    rows = []
    for name, overlay in config.memory.items():
        own = {key: value for key, value in overlay.items() if key not in _OF_VARIANT}
        merged = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create(base), own), resolve=True)
        assert isinstance(merged, dict)
        leaves = flattened({str(key): value for key, value in merged.items()})
        rows.append(
            {
                "variant_id": str(name),
                "judged": bool(overlay.get("judged", False)),
                "expected_fail": list(overlay.get("expected_fail", [])),
                **leaves,
            }
        )
    return variants_of(rows)


def variants_of(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Schema Variants from rows of column values, each checked against its column."""
    columns = Variants.columns()
    rows = list(rows)
    unknown = sorted({name for row in rows for name in row} - set(columns))
    if unknown:
        raise ConfigurationError(
            f"{unknown[0]}: no such setting" + _suggestion(unknown[0], columns)
        )
    checked = [{name: _value(name, columns[name], row) for name in columns} for row in rows]
    frame = pl.DataFrame(checked, schema=dict(Variants.create_empty().schema))
    return Variants.validate(frame)


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`gate.theta_magnitude` as the column `gate_theta_magnitude`."""
    leaves: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in _STRUCTS:
            leaves |= flattened(value, f"{name}_")
        else:
            leaves[name] = value
    return leaves


def stored_yaml(config: DictConfig) -> str:
    """What `config.yaml` of a run folder holds."""
    return OmegaConf.to_yaml(config, resolve=True)


def difference(stored: str, current: str) -> list[str]:
    """The keys in which two stored configurations differ, with both values; what has no effect on
    results is left out."""
    one, other = (
        _leaves(OmegaConf.to_container(OmegaConf.create(text))) for text in (stored, current)
    )
    return [
        f"{key}: {one.get(key, 'absent')!r} there, {other.get(key, 'absent')!r} here"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key) and key.split(".")[0] not in _WITHOUT_EFFECT
    ]


def _composed(overrides: Sequence[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        return compose(config_name="config", overrides=list(overrides))


def _groups() -> set[str]:
    return {path.name for path in CONF.iterdir() if path.is_dir() and path.name != "lexicon"}


def _key(override: Override) -> str:
    return str(override.key_or_group).lstrip("+")


def _plain(override: Override) -> str:
    """The override without `+`: whether a key exists is decided here, not by its sign."""
    if override.is_delete():
        raise ConfigurationError(
            f"{override.input_line}: keys cannot be removed; set another value"
        )
    return str(override.input_line).lstrip("+")


def _check_options(override: Override) -> None:
    group = _key(override)
    options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    value = override.value()
    for option in value if isinstance(value, list) else [value]:
        if str(option) not in options:
            raise ConfigurationError(
                f"{group}={option}: found {str(option)!r}, expected one of {options}"
                + _suggestion(str(option), options)
            )


def _known_keys(config: DictConfig) -> list[str]:
    """Every dotted key, and every setting again below each variant."""
    keys = _dotted(config)
    settings = [key for key in keys if key.split(".")[0] in SECTIONS]
    overlays = [
        f"memory.{name}.{key}" for name in config.memory for key in [*settings, *_OF_VARIANT]
    ]
    return sorted({*keys, *overlays})


def _check_key(override: Override, known: Sequence[str]) -> None:
    key = _key(override)
    if key not in known:
        raise ConfigurationError(f"{override.input_line}: no key {key!r}" + _suggestion(key, known))


def _suggestion(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _dotted(node: Any, prefix: str = "") -> list[str]:
    if not isinstance(node, DictConfig):
        return []
    keys = []
    for key in node:
        name = f"{prefix}{key!s}"
        missing = OmegaConf.is_missing(node, key)
        keys += [name, *([] if missing else _dotted(node._get_node(key), f"{name}."))]
    return keys


def _leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {prefix.removesuffix("."): node}
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _leaves(value, f"{prefix}{key}.")
    return leaves


def _value(name: str, column: dy.Column, row: Mapping[str, Any]) -> Any:
    """The value if the column allows it; a whole number may stand for a float."""
    if name not in row:
        raise ConfigurationError(f"{_dotted_name(name)}: the setting is missing")
    value = row[name]
    if isinstance(column, dy.Struct):
        return {
            key: _value(f"{name}.{key}", inner, {f"{name}.{key}": value.get(key)})
            for key, inner in column.inner.items()
        }
    if isinstance(column, dy.List):
        return value
    allowed = _allowed(column)
    kinds: dict[type[dy.Column], tuple[type, ...]] = {
        dy.Bool: (bool,),
        dy.Int32: (int,),
        dy.Float64: (int, float),
        dy.Enum: (str,),
        dy.String: (str,),
    }
    right_type = isinstance(value, kinds[type(column)]) and (
        isinstance(value, bool) == isinstance(column, dy.Bool)
    )
    if not right_type or not _in_range(column, value):
        raise ConfigurationError(f"{_dotted_name(name)}: found {value!r}, expected {allowed}")
    return float(value) if isinstance(column, dy.Float64) else value


def _in_range(column: dy.Column, value: Any) -> bool:
    if isinstance(column, dy.Enum):
        return value in column.categories
    at_least, at_most = getattr(column, "min", None), getattr(column, "max", None)
    above = getattr(column, "min_exclusive", None)
    return bool(
        (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
        and (above is None or value > above)
    )


def _allowed(column: dy.Column) -> str:
    if isinstance(column, dy.Enum):
        return f"one of {list(column.categories)}"
    name = {dy.Bool: "true or false", dy.Int32: "a whole number", dy.Float64: "a number"}.get(
        type(column), "a text"
    )
    bounds = [
        f"{word} {getattr(column, bound)}"
        for bound, word in (("min", "at least"), ("min_exclusive", "above"), ("max", "at most"))
        if getattr(column, bound, None) is not None
    ]
    return " ".join([name, *bounds])


def _dotted_name(column: str) -> str:
    """`gate_theta_magnitude` as `gate.theta_magnitude`."""
    section = next((name for name in SECTIONS if column.startswith(f"{name}_")), None)
    return f"{section}.{column.removeprefix(f'{section}_')}" if section else column
