"""Shards: the parts of a run, wherever they run, add up to the run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import harness.runs
from harness.cli import main
from harness.errors import ConfigurationError, StoreError
from harness.shards import of_shard

_RUN = ["run", "family=demo", "memory=[full,off,traces_only]"]


def _lanes(*ids: int, sources: dict[int, int] | None = None) -> pl.DataFrame:
    return pl.DataFrame(
        {"lane_id": ids, "packet_source_lane_id": [(sources or {}).get(lane) for lane in ids]},
        schema={"lane_id": pl.Int64, "packet_source_lane_id": pl.Int64},
    )


def _hashes(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())["tables"]


def _commits(folder: Path) -> pl.DataFrame:
    return harness.runs.Store.open(str(folder / "tables")).commits().sort("shard", "step")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "whole"
    assert main([*_RUN, f"output={folder}"]) == 0
    return folder


def test_every_lane_is_in_one_shard() -> None:
    lanes = _lanes(11, -4, 7, 3, 25)
    parts = [of_shard(lanes, shard, 3)["lane_id"].to_list() for shard in range(3)]
    # In order of id: -4, 3, 7, 11, 25, dealt out one by one.
    assert [sorted(part) for part in parts] == [[-4, 11], [3, 25], [7]]


def test_a_lane_is_where_the_lane_is_whose_packets_it_gets() -> None:
    lanes = _lanes(1, 2, 3, 4, sources={1: 4, 2: 3})
    assert [sorted(of_shard(lanes, shard, 2)["lane_id"]) for shard in range(2)] == [[2, 3], [1, 4]]


def test_more_shards_than_lanes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="shards: found 3, expected at most 2"):
        of_shard(_lanes(1, 2, 3, sources={1: 3}), 0, 3)


def test_shards_one_by_one_have_the_hashes_of_the_whole(whole: Path, tmp_path: Path) -> None:
    assert main([*_RUN, f"output={tmp_path / 'parts'}", "shards=2"]) == 0
    assert _hashes(tmp_path / "parts") == _hashes(whole)
    assert _commits(tmp_path / "parts")["shard"].unique().sort().to_list() == [0, 1]


def test_a_shard_that_fails_is_named_and_only_it_runs_again(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [*_RUN, f"output={tmp_path / 'parts'}", "shards=3"]
    run = harness.runs.run
    begun = []

    def failing(plan: object, mind: object, store: object, shard: int = 0) -> float:
        begun.append(shard)
        if shard == 1 and begun.count(1) == 1:
            raise StoreError("disk full")
        return run(plan, mind, store, shard)

    monkeypatch.setattr("harness.runs.run", failing)
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "shard 1: disk full" in told
    # Three tasks and the set-up.
    assert "shards 1 (4 steps left) did not finish; the same command resumes them" in told
    assert not (tmp_path / "parts" / "summary.json").exists()
    first = _commits(tmp_path / "parts")
    assert main(command) == 0
    assert begun == [0, 1, 2, 1]
    assert _commits(tmp_path / "parts").filter(pl.col("shard") != 1).equals(first)
    assert _hashes(tmp_path / "parts") == _hashes(whole)


def test_a_job_that_dies_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dying(plan: object, mind: object, store: object, shard: int = 0) -> float:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("harness.runs.run", dying)
    assert main([*_RUN, f"output={tmp_path / 'parts'}", "shards=2"]) == 2
    told = capsys.readouterr().err
    assert "a bug" in told
    assert "shards 0 (4 steps left), 1 (4 steps left) did not finish" in told


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["shards=2", "hydra/launcher=joblb"], "did you mean 'joblib'"),
        (["hydra/launcher=joblib"], "expected shards=2 or more"),
        (["shards=0"], "shards: found 0"),
        (["shards=7"], "shards: found 7, expected at most 6"),
        (["launcher=[slurm]"], "launcher: found 'slurm'"),
    ],
)
def test_what_cannot_be_launched_is_refused_before_anything_is_written(
    words: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_RUN, f"output={tmp_path / 'parts'}", *words]) == 2
    assert refusal in capsys.readouterr().err
    assert not (tmp_path / "parts").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
        ["hydra/launcher=ray", "+hydra.launcher.ray.init.include_dashboard=false"],
    ],
    ids=["joblib", "ray"],
)
def test_shards_in_other_processes_have_the_hashes_of_the_whole(
    launcher: list[str], whole: Path, tmp_path: Path
) -> None:
    # A cluster of its own, whatever the environment says of others.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_")
    } | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness.cli", *_RUN),
            *(f"output={tmp_path / 'parts'}", "shards=2", *launcher),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert _hashes(tmp_path / "parts") == _hashes(whole)
    assert _commits(tmp_path / "parts")["shard"].unique().sort().to_list() == [0, 1]
