"""The command line: `memos-flow <command> [key=value ...]`, wiring and nothing else."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path

from omegaconf import DictConfig

from harness.errors import ConfigurationError, MemosFlowError

_PROGRAM = "memos-flow"
_USAGE_ERROR, _INTERRUPTED = 2, 130


@dataclass(frozen=True)
class Command:
    """What a command does, how it is called, and the function that does it."""

    purpose: str
    example: str
    do: Callable[[DictConfig], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 for a failed criterion or finding, 2 for a usage error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(words)
    except MemosFlowError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted; the same command resumes", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone: nothing is left to say.
        sys.stderr.close()
        return _USAGE_ERROR


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
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
    command = COMMANDS[name]
    if {"-h", "--help"} & set(overrides):
        print(f"{_PROGRAM} {name}: {command.purpose}\n\nexample: {command.example}")
        return 0

    from harness.configuration import compose_config

    return command.do(compose_config(overrides))


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
            "Keys and their defaults: conf/config.yaml and conf/settings.yaml (Hydra's grammar).",
        ]
    )


# The modules of a command are imported when it runs: help answers at once.


def _run(config: DictConfig) -> int:
    from harness.runs import execute
    from reports.report import as_data, as_text

    tables = execute(config)
    rate = config.acceptance.recall_rate
    if config.format == "json":
        print(json.dumps(as_data(tables, rate), indent=2, ensure_ascii=False))
    else:
        print(as_text(tables, rate), end="")
    print(f"run folder: {config.output}", file=sys.stderr)
    return 0


def _accept(config: DictConfig) -> int:
    from harness.runs import check_choices, read_tables, write_json
    from reports.acceptance import acceptance, accepted
    from reports.rendering import aligned, markdown
    from reports.report import acceptance_table

    check_choices(config)
    folder = Path(config.run)
    entries = acceptance(read_tables(folder), config.acceptance.recall_rate)
    table = acceptance_table(entries)
    write_json(folder / "acceptance.json", {"criteria": entries})
    (folder / "acceptance.md").write_text(markdown(table) + "\n", encoding="utf-8")
    shown = json.dumps(entries, indent=2) if config.format == "json" else aligned(table)
    print(shown)
    return 0 if accepted(entries) else 1


def _check(config: DictConfig) -> int:
    from harness.check import findings_of

    findings = findings_of(config)
    if config.format == "json":
        print(json.dumps([vars(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        print("\n".join(map(str, findings)) or "nothing odd")
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _report(config: DictConfig) -> int:
    from harness.runs import check_choices, read_tables
    from reports.report import as_data, as_text

    check_choices(config)
    tables = read_tables(Path(config.run))
    rate = config.acceptance.recall_rate
    if config.format == "json":
        print(json.dumps(as_data(tables, rate), indent=2, ensure_ascii=False))
    else:
        print(as_text(tables, rate), end="")
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
        _run,
    ),
    "accept": Command(
        "the acceptance report of a run folder; exit code 1 if a judged setting fails",
        f"{_PROGRAM} accept run=runs/latest",
        _accept,
    ),
    "check": Command(
        "what is odd in a family folder or a folder of recorded trials; changes nothing",
        f"{_PROGRAM} check trials=harbor trials.root=DIR tasks.root=DIR",
        _check,
    ),
    "report": Command(
        "the reports of a run folder", f"{_PROGRAM} report run=runs/latest format=json", _report
    ),
    "calibrate": Command(
        "similarity thresholds of an embedder, from labelled pairs of lessons",
        f"{_PROGRAM} calibrate embedder=hashing",
        _calibrate,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
