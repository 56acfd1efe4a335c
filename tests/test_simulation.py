"""Whole simulated runs: shared executions, people's remarks, controls, resume, determinism."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from harness.cli import main
from harness.runs import read_tables
from memos_flow.schemas import TABLES, LaneRelations

_SETTINGS = "memory=[full,off,oracle,irrelevant,shuffled]"
_COMMAND = ["run", "family=all", _SETTINGS, "seeds=2"]


def _hashes(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())["tables"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated") / "run"
    assert main([*_COMMAND, f"output={folder}"]) == 0
    return folder


@pytest.fixture(scope="module")
def tables(run: Path) -> dict[str, pl.DataFrame]:
    return read_tables(run)


def _lanes(tables: dict[str, pl.DataFrame], variant: str) -> pl.DataFrame:
    return tables["lanes"].filter(pl.col("variant_id") == variant)


def test_every_stored_row_keeps_its_schema_and_the_relations(tables: dict) -> None:
    for name, schema in TABLES.items():
        schema.validate(tables[name])
    LaneRelations.validate({name: tables[name] for name in LaneRelations.members()})


def test_an_execution_is_shared_by_lanes_that_see_the_same(tables: dict) -> None:
    trials = tables["trials"]
    assert tables["executions"].height == trials["execution_id"].n_unique()
    assert tables["executions"].height < trials.height
    # At the first task no memory says anything: all settings but the oracle share it.
    oracle = _lanes(tables, "oracle")
    first = trials.filter(pl.col("step") == 0).join(oracle, on="lane_id", how="anti")
    assert first["execution_id"].n_unique() == 2 * 2


def test_settings_are_paired_by_their_inclinations(tables: dict) -> None:
    off = tables["trials"].join(_lanes(tables, "off"), on="lane_id")
    empty = tables["packets"].filter(pl.col("text_id").is_null()).select("lane_id", "step")
    unread = (
        tables["trials"]
        .join(empty, on=["lane_id", "step"], how="semi")
        .join(tables["lanes"].select("lane_id", "seed"), on="lane_id")
    )
    pairs = unread.join(off, on=["seed", "family", "task"], suffix="_off")
    assert (pairs["passed"] == pairs["passed_off"]).all()


def test_a_remark_about_a_fault_comes_only_where_the_fault_showed(tables: dict) -> None:
    spoken = (
        tables["feedback"]
        .filter(pl.col("source") == "user")
        .join(
            tables["trials"].select(
                "lane_id", "family", "task", "execution_id", episode_step="step"
            ),
            on=["lane_id", "episode_step"],
            suffix="_trial",
        )
        .join(tables["remark_faults"], on=["family", "task", "text_id"])
    )
    assert spoken.height > 0
    shown = tables["shown_faults"].rename({"execution_id": "execution_id_trial"})
    assert spoken.join(shown, on=["execution_id_trial", "fault"], how="anti").is_empty()


def test_the_ground_truth_reaches_no_packet_and_no_memory(tables: dict) -> None:
    faults = tables["fault_matrix"]["fault"].unique().to_list()
    told = tables["texts"].filter(pl.col("text").str.contains_any(faults))
    assert told.is_empty()


def test_no_packet_names_its_family_or_task(tables: dict) -> None:
    packets = (
        tables["packets"]
        .join(tables["texts"], on="text_id")
        .join(tables["trials"].select("lane_id", "step", "task"), on=["lane_id", "step"])
    )
    assert not packets.filter(pl.col("text").str.contains(pl.col("task"), literal=True)).height


def test_controls_get_other_packets_than_their_own(tables: dict) -> None:
    texts = dict(tables["texts"].iter_rows())
    irrelevant = tables["packets"].join(_lanes(tables, "irrelevant"), on="lane_id", how="semi")
    told = [texts[number] for number in irrelevant["text_id"].drop_nulls()]
    assert told
    assert not any("Wrong value" in text for text in told)
    shuffled = _lanes(tables, "shuffled").select("lane_id", "packet_source_lane_id")
    packets = tables["packets"].select("lane_id", "step", "text_id")
    pairs = packets.join(shuffled, on="lane_id").join(
        packets.rename({"lane_id": "packet_source_lane_id", "text_id": "source_text_id"}),
        on=["packet_source_lane_id", "step"],
    )
    assert pairs.height
    assert (pairs["text_id"].eq_missing(pairs["source_text_id"])).all()
    fates = tables["packet_items"].join(shuffled, on="lane_id", how="semi")["fate"]
    assert "injected" not in set(fates)


def test_the_oracle_is_far_ahead_of_no_memory(tables: dict) -> None:
    def passed(variant: str) -> int:
        own = tables["trials"].join(_lanes(tables, variant), on="lane_id", how="semi")
        return int(own["passed"].sum())

    assert passed("oracle") > 1.3 * passed("off")


def test_the_reports_call_it_simulated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", f"run={run}", "format=json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["caveats"][0].startswith("Simulated agent")
    assert {row["variant_id"] for row in told["Pass rate by task index"]} >= {"full", "off"}


@pytest.mark.slow
def test_threads_and_a_resume_change_no_hash(run: Path, tmp_path: Path) -> None:
    """One thread, stopped in the middle by a signal, then two threads: the same tables."""
    command = [sys.executable, "-m", "harness.cli", *_COMMAND, f"output={tmp_path / 'again'}"]
    root = Path(__file__).parents[1]
    one = {**os.environ, "POLARS_MAX_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=root, env=one, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    commits = tmp_path / "again" / "tables" / "commits.lance" / "data"
    while process.poll() is None and len(list(commits.glob("*.lance"))) < 4:
        pass
    process.kill()
    process.communicate()
    two = {**os.environ, "POLARS_MAX_THREADS": "2"}
    subprocess.run(command, cwd=root, env=two, check=True, capture_output=True)
    assert _hashes(tmp_path / "again") == _hashes(run)
