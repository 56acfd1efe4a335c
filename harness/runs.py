"""A run and its folder: `tables/`, `config.yaml`, `summary.json`, `acceptance.json`.

The tables may be in an object store instead; `config.yaml` says where.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
from omegaconf import DictConfig

from harness.ablation import ablated
from harness.canonical import table_hashes
from harness.comprehension import comprehension
from harness.configuration import (
    container,
    difference,
    stored_values,
    stored_yaml,
    variants_frame,
)
from harness.embedders import embedder_from
from harness.errors import ConfigurationError, StoreError
from harness.families import family_folders
from harness.gate import judged, read_rows
from harness.kit import DEFINITION, load_definition
from harness.lexicons import load_lexicon
from harness.loop import Plan, run
from harness.resources import CONF, DATASETS
from harness.scripted import Reader
from harness.shards import launch, of_shard
from harness.sources import Mind, load_source
from harness.store import Store
from memos_flow.library import Library
from memos_flow.schemas import TABLES
from memos_flow.wording import Wording
from reports.ablation import as_data as ablation_data
from reports.acceptance import acceptance
from reports.comparison import compared
from reports.summary import summary

_CONFIGURATION: Final = "config.yaml"
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "scope": ("family", "shared"),
    "order": ("sequential", "interleaved"),
    "format": ("text", "json"),
}
#: A place and nothing else: `config.yaml` must not hold credentials.
_OBJECT_STORE: Final = re.compile(r"(s3|gs|az)://[^/?#@]+(/[^?#@]*)?")


def ablate(config: DictConfig) -> dict[str, Any]:
    """Run every setting of the axes and write `ablation.json`; returns its content."""
    variants, points = ablated(config)
    base = variants["variant_id"][0]
    data = ablation_data(execute(config), points, base)
    write_json(Path(config.output) / "ablation.json", data)
    return data


def execute(config: DictConfig) -> dict[str, pl.DataFrame]:
    """Run what the configuration says, or what is left of it; returns the tables of the run.

    Raises StoreError where the folder holds a run of another configuration, or where a shard did
    not finish.
    """
    check_choices(config)
    # Whatever is wrong with the plan is said before anything is written.
    plan = plan_of(config)
    plan.lanes()
    folder = Path(config.output)
    current = stored_yaml(config)
    started = time.perf_counter()
    if plan.shards == 1:
        mind = mind_of(config)
        _claim(folder, current)
        run(plan, mind, _store_of(folder))
    else:
        of_shard(plan.lanes(), 0, plan.shards)
        _claim(folder, current)
        _run_shards(plan, config)
    seconds = time.perf_counter() - started
    tables = read_tables(folder)
    write_json(folder / "summary.json", summary(tables, table_hashes(tables), seconds))
    entries = acceptance(tables, config.acceptance.recall_rate)
    write_json(folder / "acceptance.json", {"criteria": entries})
    return tables


def plan_of(config: DictConfig) -> Plan:
    """The trials and settings that the configuration names; those of its axes where it has any."""
    variants = ablated(config)[0] if config.axes else variants_frame(config)
    return Plan(
        source=load_source(config),
        variants=variants,
        seeds=config.seeds,
        scope=config.scope,
        order=config.order,
        strict=config.checks.strict,
        shards=config.shards,
        indexes=Path(config.output) / "indexes",
    )


def _run_shards(plan: Plan, config: DictConfig) -> None:
    """All shards that have steps to do, as jobs; raises StoreError naming those that still have."""
    folder = Path(config.output).resolve()
    store = _store_of(folder)
    store.create()
    uri, content = store.uri, container(config)

    def job(shard: int) -> None:
        # Elsewhere, perhaps: everything a job needs comes with it.
        own = DictConfig(content)
        run(plan_of(own), mind_of(own), Store.open(uri), shard)

    launch(job, list(plan.unfinished(store)), list(config.launcher), folder / "shards")
    left = plan.unfinished(store)
    if left:
        told = ", ".join(f"{shard} ({steps} steps left)" for shard, steps in left.items())
        raise StoreError(
            f"{config.output}: shards {told} did not finish; the same command resumes them"
        )


def gate(config: DictConfig) -> list[dict[str, Any]]:
    """What the one setting of `memory` would make of the feedback rows of `input`."""
    if config.input is None:
        raise ConfigurationError("input: missing; name a JSONL file of feedback rows")
    variants = variants_frame(config)
    if variants.height > 1:
        raise ConfigurationError(
            f"memory: found {variants['variant_id'].to_list()}, expected one setting for gate"
        )
    mind = mind_of(config)
    return judged(read_rows(Path(config.input)), variants, mind.library, mind.wording)


def compare(config: DictConfig) -> dict[str, Any]:
    """What differs between `run` and `against`, or between two `variants` of `run`."""
    left = read_tables(Path(config.run))
    right = left if config.against is None else read_tables(Path(config.against))
    chosen = list(config.variants)
    if len(chosen) not in (0, 2) or (config.against is None and not chosen):
        raise ConfigurationError(f"variants: found {chosen}, expected two settings, or against=DIR")
    for name, tables in zip(chosen, (left, right), strict=False):
        known = tables["variants"]["variant_id"].to_list()
        if name not in known:
            raise ConfigurationError(f"variants: found {name!r}, expected two of {known}")
    pair = (str(chosen[0]), str(chosen[1])) if chosen else None
    return compared(left, right, pair, config.acceptance.recall_rate)


def family_folders_of(config: DictConfig) -> list[Path]:
    """The folders of the families that `family` names and the scripted agent can run."""
    root = Path(config.family.path or DATASETS / config.family.embedded.tasks)
    return list(family_folders(root).values()) if not (root / DEFINITION).is_file() else [root]


def comprehensions(config: DictConfig) -> list[dict[str, Any]]:
    """What the scripted agent understands of each family's lines."""
    mind = mind_of(config)
    reader = Reader(mind.embedder, mind.lexicon, config.agent.understands)
    return [
        comprehension(folder, load_definition(folder), reader)
        for folder in family_folders_of(config)
    ]


def check_choices(config: DictConfig) -> None:
    """Raises ConfigurationError for a run-level value that is not understood."""
    for key, choices in _CHOICES.items():
        if config[key] not in choices:
            raise ConfigurationError(f"{key}: found {config[key]!r}, expected one of {[*choices]}")
    if not isinstance(config.seeds, int) or isinstance(config.seeds, bool) or config.seeds < 1:
        raise ConfigurationError(f"seeds: found {config.seeds!r}, expected a whole number above 0")
    if config.shards < 1:
        raise ConfigurationError(f"shards: found {config.shards}, expected 1 or more")
    if list(config.launcher) and config.shards == 1:
        raise ConfigurationError(
            f"{config.launcher[0]}: launches the shards of a run; expected shards=2 or more"
        )
    rate = config.acceptance.recall_rate
    if not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ConfigurationError(f"acceptance.recall_rate: found {rate!r}, expected 0 to 1")
    if not isinstance(config.checks.strict, bool):
        raise ConfigurationError(
            f"checks.strict: found {config.checks.strict!r}, expected true or false"
        )
    uri = config.store.uri
    if uri is not None and not _OBJECT_STORE.fullmatch(uri):
        # Not shown: it may hold a password.
        raise ConfigurationError(
            "store.uri: expected null or s3://bucket/prefix, without user name, password or query; "
            "credentials come from the environment"
        )


def mind_of(config: DictConfig) -> Mind:
    """What the memory understands texts with, as configured."""
    embedder = embedder_from(container(config.embedder))
    lexicon = load_lexicon(CONF / "lexicon")
    return Mind(
        library=Library(embedder.embed, lexicon),
        wording=Wording.from_mapping(container(config.wording)),
        domains=container(config.domains),
        embedder=embedder,
        lexicon=lexicon,
    )


def read_tables(folder: Path) -> dict[str, pl.DataFrame]:
    """Every table of a run folder; raises StoreError where there is none."""
    if not (folder / _CONFIGURATION).is_file():
        raise StoreError(f"{folder}: no run here; expected a folder written by memos-flow run")
    store = _store_of(folder)
    if store.is_new():
        raise StoreError(f"{folder}: no tables at {store.uri}; the same run command makes them")
    commits = store.commits()
    return {name: store.read(name, commits) for name in TABLES}


def write_json(path: Path, content: Any) -> None:
    """The file appears as a whole or not at all."""
    _write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _claim(folder: Path, current: str) -> None:
    """The folder belongs to this configuration from now on."""
    stored = folder / _CONFIGURATION
    if stored.is_file():
        differing = difference(stored.read_text(encoding="utf-8"), current)
        if differing:
            raise StoreError(
                f"{folder}: holds a run of another configuration ({'; '.join(differing)}). "
                "Choose another folder with output=DIR, or remove this one"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise StoreError(f"{folder}: not empty and not a run folder; choose output=DIR")
    uri = _tables_uri(folder, current)
    if not Store(uri).is_new():
        raise StoreError(
            f"{uri}: holds the tables of another run, and {folder} is new. Choose another place "
            "with store.uri=s3://bucket/prefix, or name that run's own folder with output=DIR"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write_whole(stored, current)


def _store_of(folder: Path) -> Store:
    """The tables of a run folder, wherever its configuration says they are."""
    stored = (folder / _CONFIGURATION).read_text(encoding="utf-8")
    return Store.open(_tables_uri(folder, stored))


def _tables_uri(folder: Path, configuration: str) -> str:
    return str(stored_values(configuration).get("store.uri") or folder / "tables")


def _write_whole(path: Path, text: str) -> None:
    written = path.with_suffix(f"{path.suffix}.part")
    written.write_text(text, encoding="utf-8")
    written.replace(path)
