"""Configuration: every number is in conf/, every key is known, every value is in range."""

import polars as pl
import pytest
from omegaconf import OmegaConf

from harness.configuration import (
    SECTIONS,
    compose_config,
    difference,
    flattened,
    stored_yaml,
    variants_frame,
    variants_of,
)
from harness.errors import ConfigurationError
from harness.resources import CONF
from memos_flow.schemas import Variants
from tests.conftest import defaults


def test_the_settings_are_the_columns_of_variants_and_nothing_else() -> None:
    columns = set(Variants.column_names()) - {"variant_id", "judged", "expected_fail"}
    assert set(defaults()) == columns


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "memory").glob("*.yaml")))
def test_every_setting_is_a_row(name: str) -> None:
    row = variants_frame(compose_config([f'memory=["{name}"]']))
    assert row["variant_id"].to_list() == [name]
    assert row["judged"].to_list() == [name == "full"]


@pytest.mark.parametrize("memory", ["[full,off]", '[full,"off"]', "[off,full]"])
def test_several_settings_run_side_by_side(memory: str) -> None:
    variants = variants_frame(compose_config([f"memory={memory}"]))
    assert sorted(variants["variant_id"]) == ["full", "off"]
    assert dict(variants.select("variant_id", "recall_packet").rows()) == {
        "full": "memory",
        "off": "none",
    }


def test_an_override_reaches_all_settings_or_one() -> None:
    config = compose_config(
        ["memory=[full,off]", "gate.theta_magnitude=0.4", "memory.off.gate.theta_r_task=0.9"]
    )
    rows = variants_frame(config).sort("variant_id")
    assert rows.select("gate_theta_magnitude", "gate_theta_r_task").rows() == [
        (0.4, 0.5),
        (0.4, 0.9),
    ]


def test_similarity_thresholds_follow_the_embedder() -> None:
    for name in ("wordllama", "hashing"):
        expected = OmegaConf.load(CONF / "embedder" / f"{name}.yaml").similarity.merge
        variants = variants_frame(compose_config([f"embedder={name}"]))
        assert variants["merge_similarity"].to_list() == [expected]


def test_an_unknown_column_is_refused_and_a_missing_one_too() -> None:
    row = {**defaults(), "variant_id": "x", "judged": False, "expected_fail": []}
    assert isinstance(variants_of([row]), pl.DataFrame)
    with pytest.raises(ConfigurationError, match="gate_theta_new"):
        variants_of([{**row, "gate_theta_new": 1}])
    del row["gate_theta_severity"]
    with pytest.raises(ConfigurationError, match=r"gate\.theta_severity: the setting is missing"):
        variants_of([row])


def test_stored_configurations_differ_only_in_what_changes_results() -> None:
    one = stored_yaml(compose_config(["output=here"]))
    assert difference(one, stored_yaml(compose_config(["output=there", "format=json"]))) == []
    assert difference(one, stored_yaml(compose_config(["seeds=2"]))) == ["seeds: 1 there, 2 here"]


def test_flattening_keeps_the_weights_together() -> None:
    nested = {"verdict": {"weights": {"order": 0.6}, "share_floor": 0.5}}
    assert flattened(nested) == {"verdict_weights": {"order": 0.6}, "verdict_share_floor": 0.5}
    assert set(SECTIONS) >= {"gate", "recall", "merge"}
