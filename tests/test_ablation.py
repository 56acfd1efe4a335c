"""ablate: axes become variants of one run; what is not understood is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest

from harness.ablation import ablated, axes_of, points_of
from harness.cli import main
from harness.configuration import compose_config
from harness.errors import ConfigurationError


def test_a_grid_crosses_the_axes_and_keeps_the_base() -> None:
    config = compose_config(
        ["axes.gate.theta_magnitude=[0.3,0.5]", "axes.recall.similarity=[vector,lexical]"]
    )
    variants, points = ablated(config)
    assert variants["variant_id"].to_list() == [
        "full",
        "gate.theta_magnitude=0.3, recall.similarity=vector",
        "gate.theta_magnitude=0.3, recall.similarity=lexical",
        "gate.theta_magnitude=0.5, recall.similarity=vector",
        "gate.theta_magnitude=0.5, recall.similarity=lexical",
    ]
    assert variants["gate_theta_magnitude"].to_list() == [0.5, 0.3, 0.3, 0.5, 0.5]
    assert variants["judged"].to_list() == [True, False, False, False, False]
    assert points.columns == ["variant_id", "gate.theta_magnitude", "recall.similarity"]


def test_a_joint_axis_moves_all_its_settings() -> None:
    variants, _ = ablated(compose_config(["axes.significance=[0.9]"]))
    row = variants.row(1, named=True)
    thetas = ("magnitude", "confidence", "r_task", "severity")
    assert [row[f"gate_theta_{name}"] for name in thetas] == [0.9] * 4


def test_one_at_a_time_and_the_sample() -> None:
    axes = {"a": [1, 2], "b": [1, 2, 3]}
    assert len(points_of(axes, "one_at_a_time", 0)) == 5
    sample = points_of({"a": list(range(8)), "b": list(range(8))}, "sample", 8)
    # A Latin hypercube: of eight samples every one of eight values is used once.
    for axis in ("a", "b"):
        assert set(Counter(point[axis] for point in sample).values()) == {1}
    assert sample == points_of({"a": list(range(8)), "b": list(range(8))}, "sample", 8)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "axes: none given"),
        (["axes.gate.theta_magnitud=[0.3]"], "did you mean 'gate.theta_magnitude'"),
        (["axes.gate.theta_magnitude=0.3"], "expected a list of values"),
        (["axes.gate.theta_magnitude=[0.3,0.3]"], "a value is given twice"),
        (["axes.recall.similarity=[telepathy]"], "recall.similarity: found 'telepathy'"),
        (["axes.recall.experiences=[1]", "design=spiral"], "design: found 'spiral'"),
    ],
)
def test_an_axis_that_is_not_understood_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ablated(compose_config(overrides))


def test_the_ready_ablations_name_settings_that_exist() -> None:
    for name in ("salience", "recall"):
        assert axes_of(compose_config([f"ablation={name}"]))


def test_an_ablation_is_one_run_with_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    command = ["ablate", "family=demo", "axes.recall.experiences=[1,5]", f"output={folder}"]
    assert main(command) == 0
    assert "Recommended by recall@5" in capsys.readouterr().out
    data = json.loads((folder / "ablation.json").read_text())
    assert [row["value"] for row in data["curves"]["recall.experiences"]] == ["1", "5"]
    assert {row["variant_id"] for row in data["settings"]} == {
        "recall.experiences=1",
        "recall.experiences=5",
    }


def test_two_settings_of_a_run_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["run", "family=demo", "memory=[full,off]", f"output={folder}"]) == 0
    capsys.readouterr()
    assert main(["compare", f"run={folder}", "variants=[full,off]"]) == 0
    told = capsys.readouterr().out
    assert "only left" in told
    assert "regressions: 0 trials" in told
    assert main(["compare", f"run={folder}"]) == 2
    assert main(["compare", f"run={folder}", "variants=[full,of]"]) == 2
    assert main(["compare", f"run={folder}", f"against={folder}"]) == 0
