"""Whole runs: the demo end to end, resumed after kills, from any directory, refused where wrong."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from harness.cli import main
from harness.runs import read_tables
from memos_flow.schemas import TABLES, LaneRelations

_CLI = [sys.executable, "-m", "harness.cli"]


def _hashes(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())["tables"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "demo"
    assert main(["run", "family=demo", f"output={folder}", "memory=[full,off]"]) == 0
    return folder


def test_every_stored_row_keeps_its_schema_and_the_relations_between_tables(demo: Path) -> None:
    tables = read_tables(demo)
    for name, schema in TABLES.items():
        schema.validate(tables[name])
    LaneRelations.validate({name: tables[name] for name in LaneRelations.members()})


def test_a_lesson_is_learned_and_recalled(demo: Path) -> None:
    tables = read_tables(demo)
    full = tables["lanes"].filter(pl.col("variant_id") == "full").select("lane_id")
    packets = tables["packets"].join(full, on="lane_id", how="semi")
    texts = tables["texts"].join(packets, on="text_id", how="semi")["text"].to_list()
    assert any("Number outside the tolerance: balances[].balance" in text for text in texts)
    assert any("Do not skip negative amounts" in text for text in texts)


def test_without_memory_nothing_is_learned_or_recalled(demo: Path) -> None:
    tables = read_tables(demo)
    off = tables["lanes"].filter(pl.col("variant_id") == "off").select("lane_id")
    for name in ("policies", "packet_items", "guidance"):
        assert tables[name].join(off, on="lane_id", how="semi").is_empty()
    assert tables["trials"].join(off, on="lane_id", how="semi").height == 6


def test_accept_passes_on_the_demo(demo: Path) -> None:
    assert main(["accept", f"run={demo}"]) == 0
    assert (demo / "acceptance.md").read_text().startswith("| variant | id | verdict")


def test_the_same_command_again_changes_nothing(demo: Path) -> None:
    before = _hashes(demo)
    assert main(["run", "family=demo", f"output={demo}", "memory=[full,off]"]) == 0
    assert _hashes(demo) == before


def test_another_configuration_is_refused_with_the_difference(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "family=demo", f"output={demo}", "memory=[full,off]", "recall.experiences=1"]
    assert main(command) == 2
    assert "recall.experiences: 5 there, 1 here" in capsys.readouterr().err


def test_other_lanes_beside_it_change_no_lane(demo: Path, tmp_path: Path) -> None:
    assert main(["run", "family=demo", f"output={tmp_path / 'alone'}"]) == 0
    alone, beside = read_tables(tmp_path / "alone"), read_tables(demo)
    lanes = alone["lanes"].select("lane_id")
    for name in ("policies", "guidance", "packet_items", "packets", "lessons", "episodes"):
        key = TABLES[name].primary_key()
        mine = beside[name].join(lanes, on="lane_id", how="semi").sort(key)
        assert mine.equals(alone[name].sort(key)), name


def test_shared_scope_keeps_one_memory(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    assert (
        main(["run", "family=demo", f"output={folder}", "scope=shared", "order=interleaved"]) == 0
    )
    assert read_tables(folder)["lanes"]["family"].null_count() == 2


@pytest.mark.slow
def test_killed_at_random_moments_a_run_ends_as_if_never_killed(demo: Path, tmp_path: Path) -> None:
    """Kill -9 the real command while it runs, then the same command until it is done."""
    chance = random.Random(11)
    command = [*_CLI, "run", "family=demo", f"output={tmp_path / 'killed'}", "memory=[full,off]"]
    root = Path(__file__).parents[1]
    for _ in range(8):
        process = subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        tables = tmp_path / "killed" / "tables"
        # Until it has written so many files of its tables: somewhere between two commits.
        wanted = chance.randrange(1, 60)
        while process.poll() is None and len(list(tables.glob("**/*.lance"))) < wanted:
            pass
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    assert _hashes(tmp_path / "killed") == _hashes(demo)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_number_of_threads_changes_no_hash(demo: Path, tmp_path: Path, threads: str) -> None:
    subprocess.run(
        [*_CLI, "run", "family=demo", f"output={tmp_path / threads}", "memory=[full,off]"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "POLARS_MAX_THREADS": threads},
        check=True,
        capture_output=True,
    )
    assert _hashes(tmp_path / threads) == _hashes(demo)


def test_check_tells_what_is_odd_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fam" / "task").mkdir(parents=True)
    (tmp_path / "fam" / "task" / "instruction.md").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert main(["check", f"family.path={tmp_path}"]) == 0
    assert "warning:" in capsys.readouterr().out
    (tmp_path / "fam" / "ALL_TASK_DIFFICULTY_RANKING.json").write_text('["ghost"]')
    assert main(["check", f"family.path={tmp_path}"]) == 1
    assert "a listed task is not there, found 'ghost'" in capsys.readouterr().out
    assert len(sorted(tmp_path.rglob("*"))) == len(before) + 1


def test_it_works_from_another_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [*_CLI, "run", "output=here", "format=json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
        capture_output=True,
    )
    assert "Acceptance" in json.loads(done.stdout)
    assert (tmp_path / "here" / "summary.json").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["run", "gate.theta_magnitud=1"], "did you mean 'gate.theta_magnitude'?"),
        (["run", "+gate.theta_new=1"], "no key 'gate.theta_new'"),
        (["run", "memory=ful"], "did you mean 'full'?"),
        (["run", "recall.ranker=best"], "expected one of ['linear', 'rrf_mmr']"),
        (["run", "recall.experiences=-1"], "expected a whole number at least 0"),
        (["run", "trials=harbor"], "trials.root: missing"),
        (["run", "trials=harbor", "trials.root=/nowhere"], "/nowhere: no such folder"),
        (["run", "family=demo", "memory=[oracle]"], "recorded trials is not known"),
        (["run", "family=demo", "memory=[full,shuffled]"], "two families or more"),
        (["run", "recall.packet=everything"], "recall.packet: found 'everything'"),
        (["run", "scope=all"], "scope: found 'all'"),
        (["accept", "run=/nowhere"], "/nowhere: no run here"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"memos-flow {name}" in shown for name in ("run", "accept", "check", "report"))
