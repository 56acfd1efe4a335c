"""The command line: `memos-flow <command> [key=value ...]`, wiring and nothing else."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from harness.errors import ConfigurationError, MemosFlowError
from harness.resources import CONF

if TYPE_CHECKING:
    import polars as pl

_PROGRAM = "memos-flow"
#: 128 and the number of the signal, as shells say it.
_USAGE_ERROR, _INTERRUPTED, _READER_GONE = 2, 130, 141
_HELP = ("-h", "--help", "help")
#: What the help of a command says of a key; a group's options are the files of its folder.
_KEYS = {
    "family": "embedded family, or family.path=DIR: a family folder, or a folder of families",
    "trials": "where trials come from; with harbor: trials.root=DIR, tasks.root=DIR",
    "families": "only these, families=[a,b]",
    "memory": "settings of the memory, several side by side: memory=[full,off]",
    "agent": "who does the tasks of a family that is not recorded",
    "embedder": "what turns texts into vectors",
    "arms": "only these arms of recorded trials, or all that begin so",
    "seeds": "lanes per setting, arm and family",
    "scope": "family: memory starts empty for each family; shared: one memory through all",
    "order": "of families in shared scope: sequential, interleaved",
    "output": "the run folder; an unfinished run of the same configuration is resumed",
    "run": "the run folder to read",
    "ablation": "ready axes",
    "axes": "axes.KEY=[...] per setting or joint axis: axes.significance=[0.3,0.5]",
    "design": "grid, one_at_a_time, sample",
    "samples": "settings drawn by design=sample",
    "against": "the run folder to compare with; without it, two settings of one run",
    "variants": "variants=[a,b]: a setting of the left and one of the right side",
    "what": "skills, tables or packets",
    "to": "the folder that export writes, new or empty",
    "input": "JSONL file, a row each: id, text, raw, polarity, magnitude, channel, r_task",
    "store.uri": "where the tables are, an object store s3://...; else in the run folder",
    "shards": "parts of a large run, appending to one store; the same command resumes them",
    "hydra/launcher": "where shards run: basic, joblib, ray; hydra.launcher.KEY=... its options",
    "checks.strict": "stop where a step does not keep its promises",
    "acceptance.recall_rate": "share from which the recall criteria pass",
    "format": "text, json",
    "quick": "a tenth of everything, in under a minute",
    "bench": "sizes: bench.lanes, bench.folders, bench.texts, bench.experiences",
}
_SOURCES = ("family", "trials", "families", "arms")


@dataclass(frozen=True)
class Command:
    """What a command does, how it is called, and the function that does it."""

    purpose: str
    example: str
    keys: tuple[str, ...]
    do: Callable[[DictConfig], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 for a failed criterion or finding, 2 for a usage error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(words)
        # Here, not at exit: a reader that is gone shows itself when the output is written.
        sys.stdout.flush()
        return code
    except MemosFlowError as error:
        return _refused(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    except OSError as error:
        # The place is the user's to mend: no such folder, no permission, no space.
        if error.filename is None:
            raise
        return _refused(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted; the same command resumes", file=sys.stderr)
        return _INTERRUPTED


def _refused(reason: Exception | str) -> int:
    """One line, however many the reason has."""
    print(f"{_PROGRAM}: {' '.join(str(reason).split())}", file=sys.stderr)
    return _USAGE_ERROR


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in _HELP:
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"{_PROGRAM} {version('memos-flow')}")
        return 0
    name, *overrides = words
    if name not in COMMANDS:
        nearest = get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigurationError(f"no command {name!r}{hint} ({_PROGRAM} --help lists them)")
    if set(_HELP) & set(overrides):
        print(_help_of(name))
        return 0

    from harness.configuration import compose_config
    from harness.runs import check_choices

    config = compose_config(overrides)
    check_choices(config)
    return COMMANDS[name].do(config)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        f"{name:<{width}}  {command.purpose}\n{'':<{width}}  {command.example}"
        for name, command in COMMANDS.items()
    ]
    return "\n".join(
        [
            f"usage: {_PROGRAM} <command> [key=value ...]",
            "",
            *lines,
            "",
            f"The keys of a command: {_PROGRAM} run --help. Some shells want brackets quoted.",
        ]
    )


def _help_of(name: str) -> str:
    command = COMMANDS[name]
    width = max(map(len, command.keys))
    lines = [f"  {key:<{width}}  {_KEYS[key]}{_options(key)}" for key in command.keys]
    return "\n".join(
        [
            f"{_PROGRAM} {name}: {command.purpose}",
            f"example: {command.example}",
            "",
            *lines,
            "",
            f"Defaults: {CONF / 'config.yaml'}",
            f"Every number of the memory is a key too: {CONF / 'settings.yaml'}",
        ]
    )


def _options(group: str) -> str:
    names = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    return f" ({', '.join(names)})" if names else ""


# The modules of a command are imported when it runs: help answers at once.


def _run(config: DictConfig) -> int:
    from harness.runs import execute

    tables = execute(config)
    _show(tables, config)
    print(f"run folder: {config.output}", file=sys.stderr)
    return 0


def _show(tables: Mapping[str, "pl.DataFrame"], config: DictConfig) -> None:
    from reports.report import as_data, as_text

    rate = config.acceptance.recall_rate
    if config.format == "json":
        print(json.dumps(as_data(tables, rate), indent=2, ensure_ascii=False))
    else:
        print(as_text(tables, rate), end="")


def _accept(config: DictConfig) -> int:
    from harness.runs import read_tables, write_json
    from reports.acceptance import acceptance, accepted
    from reports.rendering import aligned, markdown
    from reports.report import acceptance_table

    folder = Path(config.run)
    entries = acceptance(read_tables(folder), config.acceptance.recall_rate)
    table = acceptance_table(entries)
    write_json(folder / "acceptance.json", {"criteria": entries})
    (folder / "acceptance.md").write_text(markdown(table) + "\n", encoding="utf-8")
    shown = json.dumps(entries, indent=2) if config.format == "json" else aligned(table)
    print(shown)
    return 0 if accepted(entries) else 1


def _gate(config: DictConfig) -> int:
    from harness.runs import gate

    for row in gate(config):
        print(json.dumps(row, ensure_ascii=False))
    return 0


def _check(config: DictConfig) -> int:
    from harness.check import findings_of

    findings = findings_of(config)
    if config.format == "json":
        print(json.dumps([vars(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        print("\n".join(map(str, findings)) or "nothing odd")
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _report(config: DictConfig) -> int:
    from harness.runs import read_tables

    _show(read_tables(Path(config.run)), config)
    return 0


def _ablate(config: DictConfig) -> int:
    from harness.runs import ablate
    from reports.ablation import as_text

    data = ablate(config)
    print(json.dumps(data, indent=2) if config.format == "json" else as_text(data))
    print(f"run folder: {config.output}", file=sys.stderr)
    return 0


def _compare(config: DictConfig) -> int:
    from harness.runs import compare
    from reports.comparison import as_text

    found = compare(config)
    shown = json.dumps(found, indent=2, ensure_ascii=False)
    print(shown if config.format == "json" else as_text(found))
    broken = found["regressions"]
    return 1 if broken["trials"] or broken["criteria"] else 0


def _export(config: DictConfig) -> int:
    from harness.export import export
    from harness.runs import read_tables

    files = export(read_tables(Path(config.run)), config.what, Path(config.to))
    print("\n".join(map(str, files)))
    return 0


def _build(config: DictConfig) -> int:
    from harness.build import build
    from harness.runs import family_folders_of
    from reports.rendering import aligned
    from reports.simulation import fault_table

    matrices = {folder.name: build(folder) for folder in family_folders_of(config)}
    shown = json.dumps(matrices, indent=1) if config.format == "json" else None
    print(shown or aligned(fault_table(matrices)))
    return 0


def _comprehension(config: DictConfig) -> int:
    from harness.runs import comprehensions
    from reports.simulation import comprehension_text

    found = comprehensions(config)
    shown = json.dumps(found, indent=1, ensure_ascii=False)
    print(shown if config.format == "json" else comprehension_text(found))
    return 0


def _bench(config: DictConfig) -> int:
    from harness.bench import as_frames, bench
    from harness.runs import write_json
    from reports.rendering import aligned

    data = bench(config)
    folder = Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "bench.json", data)
    if config.format == "json":
        print(json.dumps(data, indent=2))
    else:
        figures, stages = as_frames(data)
        told = ", ".join(f"{name} {value}" for name, value in data["versions"].items())
        print(f"{data['machine']['cores']} cores, {data['machine']['system']}; {told}\n")
        print(f"{aligned(figures)}\n\nStages of the run of many lanes\n{aligned(stages)}")
    print(f"written: {folder / 'bench.json'}", file=sys.stderr)
    return 0


def _calibrate(config: DictConfig) -> int:
    from harness.calibration import main_report
    from harness.embedders import embedder_from

    text, data = main_report(embedder_from(config.embedder))
    print(json.dumps(data, indent=2) if config.format == "json" else text)
    return 0


COMMANDS = {
    "run": Command(
        "families or recorded trials through the memory",
        f'{_PROGRAM} run trials=harbor trials.root=DIR tasks.root=DIR memory=[full,"off"]',
        (
            *_SOURCES,
            "agent",
            "memory",
            "embedder",
            "seeds",
            "scope",
            "order",
            "output",
            "store.uri",
            "shards",
            "hydra/launcher",
            "checks.strict",
            "format",
        ),
        _run,
    ),
    "accept": Command(
        "the acceptance report of a run folder; exit code 1 if a judged setting fails",
        f"{_PROGRAM} accept run=runs/latest",
        ("run", "acceptance.recall_rate", "format"),
        _accept,
    ),
    "gate": Command(
        "what the memory would make of feedback rows; one JSON line per row, nothing stored",
        f"{_PROGRAM} gate input=feedback.jsonl",
        ("input", "memory", "embedder"),
        _gate,
    ),
    "check": Command(
        "what is odd in a family folder or a folder of recorded trials; changes nothing",
        f"{_PROGRAM} check trials=harbor trials.root=DIR tasks.root=DIR",
        (*_SOURCES, "format"),
        _check,
    ),
    "report": Command(
        "the reports of a run folder",
        f"{_PROGRAM} report run=runs/latest format=json",
        ("run", "acceptance.recall_rate", "format"),
        _report,
    ),
    "ablate": Command(
        "many settings at once: the curve of every axis, the Pareto front, what to ship",
        f"{_PROGRAM} ablate ablation=salience family=sec13f seeds=10",
        (
            "ablation",
            "axes",
            "design",
            "samples",
            *_SOURCES,
            "agent",
            "memory",
            "embedder",
            "seeds",
            "scope",
            "output",
            "store.uri",
            "shards",
            "hydra/launcher",
            "format",
        ),
        _ablate,
    ),
    "compare": Command(
        "what differs between two runs or two settings; exit code 1 if the right one is worse",
        f"{_PROGRAM} compare run=runs/baseline against=runs/latest",
        ("run", "against", "variants", "acceptance.recall_rate", "format"),
        _compare,
    ),
    "export": Command(
        "skills as Agent Skills folders, tables as Parquet, packets as text",
        f"{_PROGRAM} export run=runs/latest what=skills to=exported",
        ("run", "what", "to"),
        _export,
    ),
    "build": Command(
        "writes the data, expected answers and fault matrix of a family from its family.py",
        f"{_PROGRAM} build family.path=DIR",
        ("family", "format"),
        _build,
    ),
    "comprehension": Command(
        "how well the scripted agent understands lines that people wrote about a family",
        f"{_PROGRAM} comprehension family=sec13f",
        ("family", "agent", "embedder", "format"),
        _comprehension,
    ),
    "bench": Command(
        "speed and size on this machine, beside the goals; a few minutes",
        f"{_PROGRAM} bench quick=true output=runs/bench",
        ("quick", "bench", "output", "format"),
        _bench,
    ),
    "calibrate": Command(
        "similarity thresholds of an embedder, from labelled pairs of lessons",
        f"{_PROGRAM} calibrate embedder=hashing",
        ("embedder", "format"),
        _calibrate,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
