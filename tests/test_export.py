"""Exported skills are folders of the published Agent Skills format."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from harness.cli import main
from harness.export import skill_file

#: Every task is passed, so that there are skills.
_NEVER_WRONG = ["agent.weakness=0", "agent.inclination=0", "memory=[full]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "sim"
    assert main(["run", "family=sec13f", *_NEVER_WRONG, f"output={folder}"]) == 0
    return folder


def test_every_skill_is_a_valid_folder(run: Path, tmp_path: Path) -> None:
    assert main(["export", f"run={run}", "what=skills", f"to={tmp_path / 'out'}"]) == 0
    files = sorted((tmp_path / "out").rglob("SKILL.md"))
    assert files
    for file in files:
        _, front, body = file.read_text(encoding="utf-8").split("---\n", 2)
        told: dict[str, Any] = yaml.safe_load(front)
        assert set(told) == {"name", "description"}
        assert told["name"] == file.parent.name
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", told["name"])
        assert len(told["name"]) <= 64
        assert 0 < len(told["description"]) <= 1024
        assert re.search(r"## Procedure\n\n1\. \S", body)


def test_tables_and_packets(run: Path, tmp_path: Path) -> None:
    assert main(["export", f"run={run}", "what=tables", f"to={tmp_path / 'tables'}"]) == 0
    assert pl.read_parquet(tmp_path / "tables" / "trials.parquet").height == 8
    assert main(["export", f"run={run}", "what=packets", f"to={tmp_path / 'packets'}"]) == 0
    assert len(list((tmp_path / "packets").rglob("*.txt"))) == 8


def test_nothing_is_written_over(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["export", f"run={run}", f"to={tmp_path}"]) == 2
    assert "not empty" in capsys.readouterr().err
    assert main(["export", f"run={run}", "what=souls", f"to={tmp_path / 'new'}"]) == 2
    assert "expected one of ['skills', 'tables', 'packets']" in capsys.readouterr().err


def test_what_a_skill_file_says() -> None:
    text = skill_file(
        "sum-the-rows",
        'Sum the "rows"',
        "read all rows\nsum them\nAvoid: skipping refunds\nCheck: the total",
        ["Tasks that read a.csv", "Tasks that read a.csv"],
        {"tried": 3, "passed": 2},
    )
    assert "1. read all rows\n2. sum them\n" in text
    assert "## Avoid\n\n- skipping refunds\n" in text
    assert "## Check\n\n- the total\n" in text
    assert text.count("Tasks that read a.csv") == 2
    assert "Tried in 3 trials, 2 of them passed." in text
    assert yaml.safe_load(text.split("---\n")[1])["description"].startswith("Sum the 'rows'. ")
