"""Configuration: Hydra's grammar, no key that nothing knows, no value that nothing understands."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import dataframely as dy
import polars as pl
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.errors import ConfigurationError, StoreError
from harness.resources import CONF
from harness.shards import LAUNCHER_KEYS
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
#: The groups of which a run takes several options side by side.
_SEVERAL = frozenset({"memory"})
#: They say which option of a group this is, and change with it alone.
_CHOSEN_BY_GROUP = ("embedder.name", "trials.source")
#: One struct column instead of a column per weight.
_STRUCTS = frozenset({"verdict_weights"})
#: What a file of conf/memory/ says beside its settings.
_OF_VARIANT = {"judged": False, "expected_fail": []}
#: They change where and how results are shown or when a run stops, not what is stored.
_WITHOUT_EFFECT = frozenset(
    {
        "output",
        "run",
        "against",
        "variants",
        "input",
        "what",
        "to",
        "format",
        "acceptance",
        "checks",
        "launcher",
        "quick",
        "bench",
    }
)
#: Folders of conf/ of which no option is chosen by its name alone.
_NO_GROUPS = frozenset({"lexicon", "hydra"})
#: Whole numbers are stored in 32 bits.
_LARGEST = 2**31 - 1


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """The configuration with the overrides of a command line, every interpolation resolved.

    Raises ConfigurationError for a key or a group option that is not known (also one added with
    `+`, or inside a value), naming the nearest; for a run-level value of another type than its
    default; for a value from the environment; and for whatever Hydra cannot read. The settings of
    the memory are checked where they become columns (`variants_frame`).
    """
    launching = [word for word in overrides if word.startswith(LAUNCHER_KEYS)]
    overrides = [word for word in overrides if word not in launching]
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        for override in parsed:
            _check_form(override)
        groups = _groups()
        chosen = [_plain(override) for override in parsed if _key(override) in groups]
        for override in parsed:
            if _key(override) in groups:
                _check_options(override)
        # `++`: whether a key exists is decided by _check_keys, which knows the nearest one.
        values = [f"++{_plain(override)}" for override in parsed if _key(override) not in groups]
        defaults = _composed(chosen)
        for override in parsed:
            if _key(override) not in groups:
                _check_root(override, defaults)
        config = _composed([*chosen, *values])
        _check_environment(config)
        OmegaConf.resolve(config)
        OmegaConf.resolve(defaults)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigurationError(_first_line(error)) from error
    _check_against(container(defaults), container(config))
    _check_launcher([*config.launcher, *launching])
    config.launcher = [*config.launcher, *launching]
    return config


def _check_launcher(words: Sequence[str]) -> None:
    own = [path.stem for path in (CONF / "hydra" / "launcher").glob("*.yaml")]
    options = sorted([*own, "basic", "joblib", "ray"])
    for word in words:
        name = word.removeprefix("hydra/launcher=")
        if name != word and name not in options:
            raise ConfigurationError(
                f"hydra/launcher: found {name!r}, expected one of {options}"
                + _suggestion(name, options)
            )
        if not word.startswith(LAUNCHER_KEYS):
            raise ConfigurationError(f"launcher: found {word!r}, expected hydra/launcher=NAME")


def variants_frame(config: DictConfig) -> pl.DataFrame:
    """Schema Variants: one row per setting under `memory`, in the order given.

    Raises ConfigurationError naming the dotted key of a value of the wrong type or out of range.
    """
    base = {section: config[section] for section in SECTIONS}
    rows = []
    for name, overlay in container(config.memory).items():
        own = {key: value for key, value in overlay.items() if key not in _OF_VARIANT}
        merged = container(OmegaConf.merge(OmegaConf.create(base), own))
        described = {key: overlay.get(key, default) for key, default in _OF_VARIANT.items()}
        rows.append({"variant_id": name, **described, **flattened(merged)})
    return variants_of(rows)


def variants_of(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Schema Variants from rows of column values, in their order; a whole number may stand for a
    float.

    Takes the rows of a frame too: `variants_of(frame.iter_rows(named=True))`. Raises
    ConfigurationError for a column that is missing or not known, for a value that its column does
    not allow, and for a row that breaks a rule of the schema.
    """
    rows = list(rows)
    columns = Variants.columns()
    unknown = sorted({name for row in rows for name in row} - set(columns))
    if unknown:
        raise ConfigurationError(
            f"{unknown[0]}: no such setting" + _suggestion(unknown[0], columns)
        )
    ids = [row.get("variant_id") for row in rows]
    series = []
    for name, column in columns.items():
        if not all(name in row for row in rows):
            raise ConfigurationError(f"{_dotted_name(name)}: the setting is missing")
        values = [row[name] for row in rows]
        _check_values(_dotted_name(name), column, values, ids)
        series.append(pl.Series(name, values, dtype=column.dtype, strict=False))
    frame = pl.DataFrame(series)
    _check_rules(frame)
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


def stored_values(stored: str) -> dict[str, Any]:
    """Dotted key to value of what a `config.yaml` holds.

    Raises StoreError where it is not a configuration.
    """
    try:
        there = yaml.safe_load(stored)
    except yaml.YAMLError as error:
        raise StoreError(f"config.yaml of the run folder: not YAML ({error})") from error
    if not isinstance(there, Mapping):
        raise StoreError(f"config.yaml of the run folder: found {there!r}, expected keys")
    return _leaves(there)


def difference(stored: str, current: str) -> list[str]:
    """The keys in which two stored configurations differ, with both values; what has no effect on
    results is left out.

    Raises StoreError where the stored one is not a configuration.
    """
    one, other = stored_values(stored), stored_values(current)
    return [
        f"{key}: {one.get(key, 'absent')!r} there, {other.get(key, 'absent')!r} here"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key) and key.split(".")[0] not in _WITHOUT_EFFECT
    ]


def _composed(overrides: Sequence[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONF), version_base="1.3"):
        return compose(config_name="config", overrides=list(overrides))


def container(config: Any) -> dict[str, Any]:
    """A part of the configuration as a plain dictionary, interpolations resolved."""
    content = OmegaConf.to_container(config, resolve=True)
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


def _first_line(error: Exception) -> str:
    """What a library says, without the `++` that only we wrote."""
    line = str(error).strip().splitlines()[0].replace("++", "")
    return f"{line}: expected key=value" if line.startswith("Error parsing override") else line


# Overrides, before anything is composed.


def _groups() -> set[str]:
    return {path.name for path in CONF.iterdir() if path.is_dir()} - _NO_GROUPS


def _key(override: Override) -> str:
    return str(override.key_or_group).lstrip("+")


def _plain(override: Override) -> str:
    return str(override.input_line).lstrip("+")


def _check_form(override: Override) -> None:
    """One key, one value: nothing is removed, nothing is swept."""
    if override.is_delete():
        raise ConfigurationError(
            f"{override.input_line}: keys cannot be removed; set another value"
        )
    if override.is_sweep_override():
        raise ConfigurationError(
            f"{override.input_line}: expected one value; a list is written {_key(override)}=[a,b]"
        )


def _check_options(override: Override) -> None:
    """Every option of a group is a file of it; only of `memory` there may be several."""
    group, value = _key(override), override.value()
    options = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    chosen = value if isinstance(value, list) else [value]
    if not chosen or (len(chosen) > 1 and group not in _SEVERAL):
        wanted = "at least one" if group in _SEVERAL else "one"
        raise ConfigurationError(f"{override.input_line}: expected {wanted} of {options}")
    for option in chosen:
        if str(option) not in options:
            raise ConfigurationError(
                f"{group}: found {str(option)!r}, expected one of {options}"
                + _suggestion(str(option), options)
            )


def _check_root(override: Override, defaults: DictConfig) -> None:
    """Keys of Hydra's own, such as `hydra.run.dir`, do not appear in what it composes."""
    root = _key(override).split(".")[0]
    if root not in defaults:
        raise ConfigurationError(
            f"no key {_key(override)!r}" + _suggestion(root, map(str, defaults))
        )


def _suggestion(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


# The composed configuration, against the one without the values of the command line.


def _check_environment(config: DictConfig) -> None:
    """A run folder stores its configuration, and secrets come from the environment."""
    for key, value in _leaves(OmegaConf.to_container(config, resolve=False)).items():
        if "oc.env" in str(value):
            raise ConfigurationError(
                f"{key}: found {value!r}, but a value from the environment would be stored in the "
                "run folder; write the value itself"
            )


def _check_against(defaults: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    settings = {section: defaults[section] for section in SECTIONS}
    memory = {name: {**settings, **_OF_VARIANT} for name in defaults["memory"]}
    known = {**defaults, "memory": memory}
    # The axes of an ablation are keys of settings: checked where they become variants.
    free = {"axes", "joint"}
    named = {key: value for key, value in config.items() if key not in free}
    _check_keys("", known, named, list(_names(known)))
    chosen = {
        key: value for key, value in defaults.items() if key not in {*SECTIONS, "memory", *free}
    }
    found = _leaves(config)
    for key, default in _leaves(chosen).items():
        _check_like(key, default, found[key])
    for key in _CHOSEN_BY_GROUP:
        if found[key] != _leaves(defaults)[key]:
            group = key.split(".")[0]
            raise ConfigurationError(f"{key}: found {found[key]!r}; choose it with {group}=OPTION")


def _check_keys(key: str, known: Any, found: Any, names: Sequence[str]) -> None:
    """Keys stand where keys are known, values where values are."""
    if not isinstance(known, Mapping):
        if isinstance(found, Mapping):
            raise ConfigurationError(f"{key}: found {found!r}, expected a value")
        return
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"{key}: found {found!r}, expected keys, of {sorted(known)}")
    for name, value in found.items():
        dotted = f"{key}.{name}" if key else str(name)
        if name not in known:
            raise ConfigurationError(f"no key {dotted!r}" + _suggestion(dotted, names))
        _check_keys(dotted, known[name], value, names)


def _check_like(key: str, default: Any, value: Any) -> None:
    """A run-level value is of its default's type; where that is null, a text or null."""
    if default is None:
        fits, words = value is None or _is_text(value), "a text or null"
    elif isinstance(default, bool):
        fits, words = isinstance(value, bool), "true or false"
    elif isinstance(default, int):
        fits, words = (
            _is_whole(value) and abs(value) <= _LARGEST,
            f"a whole number up to {_LARGEST}",
        )
    elif isinstance(default, float):
        fits, words = _is_number(value), "a number"
    elif isinstance(default, list):
        fits, words = _is_texts(value), "a list of texts"
    else:
        fits, words = _is_text(value), "a text"
    if not fits:
        raise ConfigurationError(f"{key}: found {value!r}, expected {words}")


def _names(node: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Every dotted key, those of whole groups too."""
    for key, value in node.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _names(value, f"{prefix}{key}.")


def _leaves(node: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key to value."""
    if not isinstance(node, Mapping):
        return {prefix.removesuffix("."): node}
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= _leaves(value, f"{prefix}{key}.")
    return leaves


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_text(value: Any) -> bool:
    """An empty text is what an unset variable of the shell leaves."""
    return isinstance(value, str) and value != ""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


# Settings as columns.


@dataclass(frozen=True)
class _Domain:
    """What a column allows, and how that is said."""

    allows: Callable[[Any], bool]
    words: str


def _domain(column: dy.Column) -> _Domain:
    if isinstance(column, dy.Enum):
        categories = list(column.categories)
        return _Domain(categories.__contains__, f"one of {categories}")
    if isinstance(column, dy.Bool):
        return _Domain(lambda value: isinstance(value, bool), "true or false")
    if isinstance(column, dy.List):
        return _Domain(_is_texts, "a list of texts")
    if isinstance(column, dy.String):
        return _Domain(_is_text, "a text")
    return _numeric_domain(column)


def _numeric_domain(column: dy.Column) -> _Domain:
    whole = isinstance(column, dy.Int32)
    is_one = _is_whole if whole else _is_number
    at_least, above = getattr(column, "min", None), getattr(column, "min_exclusive", None)
    at_most = getattr(column, "max", None)
    low = -math.inf if at_least is None else at_least
    if at_most is None and whole:
        at_most = _LARGEST
    high = math.inf if at_most is None else at_most
    bounds = " and ".join(
        f"{word} {bound}"
        for word, bound in (("at least", at_least), ("above", above), ("at most", at_most))
        if bound is not None
    )
    return _Domain(
        lambda value: is_one(value) and low <= value <= high and (above is None or value > above),
        f"{'a whole number' if whole else 'a number'} {bounds}".rstrip(),
    )


def _check_values(
    key: str, column: dy.Column, values: Sequence[Any], variants: Sequence[Any]
) -> None:
    """Raises ConfigurationError for the first value that the column does not allow."""
    if isinstance(column, dy.Struct):
        for name, inner in column.inner.items():
            parts = [value.get(name) if isinstance(value, Mapping) else value for value in values]
            _check_values(f"{key}.{name}", inner, parts, variants)
        return
    domain = _domain(column)
    for variant, value in zip(variants, values, strict=True):
        if not domain.allows(value):
            raise ConfigurationError(
                f"{key}: found {value!r} in variant {variant!r}, expected {domain.words}"
            )


def _check_rules(frame: pl.DataFrame) -> None:
    """The rules over several columns; their names say what they ask for."""
    failures = Variants.filter(frame)[1]
    for rule in failures.counts():
        variant = failures.invalid()["variant_id"][0]
        asked = "its name is used once" if rule == "primary_key" else rule.replace("_", " ")
        raise ConfigurationError(f"memory.{variant}: expected that {asked}")


def _dotted_name(column: str) -> str:
    """`gate_theta_magnitude` as `gate.theta_magnitude`."""
    section = next((name for name in SECTIONS if column.startswith(f"{name}_")), None)
    return f"{section}.{column.removeprefix(f'{section}_')}" if section else column
