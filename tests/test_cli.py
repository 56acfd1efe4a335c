"""The command line: help that answers at once, one line for a mistake, exit codes for machines."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.progress
from harness.cli import COMMANDS, main
from harness.configuration import compose_config
from harness.progress import progress
from harness.resources import CONF

_ROOT = Path(__file__).parents[1]


def _python(*words: str) -> list[str]:
    return [sys.executable, *words]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_shows_each_command_with_one_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert command.purpose in shown
        assert command.example in shown
        assert command.example.split()[1] == name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_shows_keys_that_exist(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    config = compose_config([])
    for key in COMMANDS[name].keys:
        # A group's options set keys of their own.
        if not (CONF / key).is_dir():
            node = config
            for part in key.split("."):
                assert part in node, key
                node = node[part]
        assert f"  {key} " in shown
    assert str(CONF / "settings.yaml") in shown


def test_every_run_level_key_is_in_the_help_of_some_command() -> None:
    told = {key.split(".")[0] for command in COMMANDS.values() for key in command.keys}
    untold = set(compose_config([])) - told
    # `tasks` and the sections of the files that the help names.
    assert {"tasks", "wording", "domains", "gate", "recall"} <= untold
    assert not untold & {"seeds", "scope", "order", "output", "run", "format", "checks"}


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("memos-flow 0.")


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    told = (
        "import sys; from harness.cli import main; main(['run', '--help']);"
        "print({'polars', 'lancedb', 'hydra', 'dataframely'} & set(sys.modules))"
    )
    done = subprocess.run(
        _python("-c", told),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("set()\n")


def test_a_module_that_cannot_be_imported_breaks_no_other_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "harness.calibration", None)
    assert main(["check"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "calibrate", "accept", "report", "run"])
def test_every_command_refuses_a_format_it_cannot_write(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "format=xml"]) == 2
    told = capsys.readouterr()
    assert "format: found 'xml', expected one of ['text', 'json']" in told.err
    assert told.out == ""


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["run", f"output={tmp_path / 'file' / 'run'}"]) == 2
    assert capsys.readouterr().err == f"memos-flow: {tmp_path / 'file' / 'run'}: Not a directory\n"


def test_an_interrupted_command_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(overrides: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.configuration.compose_config", interrupted)
    assert main(["check"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_that_is_gone_ends_the_command_quietly(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        _python("-m", "harness.cli", "--help"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_progress_elsewhere_is_a_line_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moments: Iterator[float] = iter([0.0, 2.0, 6.0, 10.0])
    monkeypatch.setattr(harness.progress, "monotonic", lambda: next(moments))
    assert list(progress("abc", total=3, description="steps")) == ["a", "b", "c"]
    told = capsys.readouterr()
    assert told.err == "steps: 2/3, 6 s\n"
    assert told.out == ""


def test_progress_on_a_terminal_is_silent_when_it_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress("abc", total=3, description="steps")) == ["a", "b", "c"]
    assert terminal.getvalue() == ""
