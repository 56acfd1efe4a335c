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
from harness.errors import ConfigurationError, StoreError
from harness.resources import CONF, DATASETS
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


def _variant(name: str, **over: object) -> dict[str, object]:
    return {**defaults(), "variant_id": name, "judged": False, "expected_fail": [], **over}


def test_variants_keep_their_order_and_a_frame_of_them_is_taken_as_rows() -> None:
    frame = variants_of([_variant("b", gate_theta_magnitude=1), _variant("a")])
    assert frame["variant_id"].to_list() == ["b", "a"]
    assert frame["gate_theta_magnitude"].to_list() == [1.0, 0.5]
    assert variants_of(frame.iter_rows(named=True)).equals(frame)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"recall_experiences": 2**31}, "recall.experiences: found 2147483648 in variant 'odd'"),
        ({"recall_experiences": 3.0}, "expected a whole number at least 0 and at most 2147483647"),
        ({"gate_theta_magnitude": float("nan")}, "gate.theta_magnitude: found nan"),
        ({"reward_alpha": 1.5}, "expected a number at least 0 and at most 1"),
        ({"reward_half_life_days": 0}, "expected a number above 0"),
        ({"feedback_enabled": 1}, "expected true or false"),
        ({"feedback_split": "clause"}, "expected one of ['lesson', 'whole']"),
        ({"verdict_weights": 3}, "verdict.weights.missing_output: found 3"),
        ({"expected_fail": "S1"}, "expected_fail: found 'S1' in variant 'odd'"),
        ({"variant_id": ""}, "variant_id: found ''"),
        ({"variant_id": "even"}, "memory.even: expected that its name is used once"),
        ({"induction_prior_min": 0.9}, "memory.odd: expected that prior bounds are ordered"),
    ],
)
def test_a_value_that_its_column_does_not_allow_is_refused(
    over: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        variants_of([_variant("even"), _variant("odd", **over)])
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("+foo=1", "no key 'foo'"),
        ("gate={theta_magnitud:1}", "'gate.theta_magnitud'; did you mean 'gate.theta_magnitude'?"),
        ("verdict.weights={ordr:1}", "did you mean 'verdict.weights.order'?"),
        ("memory.full.gate.theta_magnitud=1", "did you mean 'memory.full.gate.theta_magnitude'?"),
        ("++memory.full.gates=1", "did you mean 'memory.full.gate'?"),
        ("memory.ful.judged=true", "did you mean 'memory.full'?"),
        ("+embedder.dimension=3", "no key 'embedder.dimension'"),
        ("hydra.run.dir=x", "no key 'hydra.run.dir'"),
        ("family.pth=x", "did you mean 'family.path'?"),
        ("trials=harbour", "did you mean 'harbor'?"),
        ("embedder=[hashing,wordllama]", "expected one of"),
        ("memory=[]", "expected at least one of"),
        ("memory=full,off", "a list is written memory=[a,b]"),
        ("~gate", "keys cannot be removed"),
        ("gate", "expected key=value"),
        ("gate=3", "gate: found 3, expected keys, of ['theta_confidence'"),
        ("memory.full=null", "memory.full: found None, expected keys"),
        ("scope={}", "scope: found {}, expected a value"),
        ("checks=null", "checks: found None, expected keys, of ['strict']"),
        ("checks.strict=1", "checks.strict: found 1, expected true or false"),
        ("seeds=1.5", "seeds: found 1.5, expected a whole number"),
        ("acceptance.recall_rate=high", "expected a number"),
        ("families=demo", "families: found 'demo', expected a list of texts"),
        ("output=", "output: found '', expected a text"),
        ("family.path=3", "family.path: found 3, expected a text or null"),
        ("trials.source=harbor", "choose it with trials=OPTION"),
        ("seeds=${nothing}", "'nothing' not found"),
    ],
)
def test_a_key_or_value_that_is_not_understood_is_refused(override: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        compose_config([override])
    assert told in str(refused.value)


def test_a_dictionary_changes_the_keys_it_names_and_no_other() -> None:
    gate = compose_config(["gate={theta_magnitude:0.3}"]).gate
    assert (gate.theta_magnitude, gate.theta_severity) == (0.3, 0.5)


def test_a_value_from_the_environment_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITS_SECRET", "hidden")
    for override in ("output=${oc.env:ITS_SECRET}", "families=['${oc.env:ITS_SECRET}']"):
        with pytest.raises(ConfigurationError, match="from the environment") as refused:
            compose_config([override])
        assert "hidden" not in str(refused.value)


def test_all_embedded_families_hold_each_of_them() -> None:
    files = {path.stem: OmegaConf.load(path) for path in (CONF / "family").glob("*.yaml")}
    everything = DATASETS / files["all"].embedded.tasks
    for name, file in files.items():
        assert (DATASETS / file.embedded.tasks).is_dir(), name
        assert (DATASETS / file.embedded.tasks).is_relative_to(everything), name


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "memory").glob("*.yaml")))
def test_a_setting_begins_with_its_package_and_its_command(name: str) -> None:
    package, command = (CONF / "memory" / f"{name}.yaml").read_text().splitlines()[:2]
    assert package == f"# @package memory.{name}"
    assert command.startswith("# memos-flow run memory=")
    assert name in command


@pytest.mark.parametrize("stored", ["a: [", "", "- 1"])
def test_a_stored_configuration_that_is_none_is_refused(stored: str) -> None:
    with pytest.raises(StoreError, match=r"config\.yaml of the run folder"):
        difference(stored, stored_yaml(compose_config([])))


def test_stored_configurations_differ_only_in_what_changes_results() -> None:
    one = stored_yaml(compose_config(["output=here"]))
    shown = ["output=there", "format=json", "checks.strict=true", "acceptance.recall_rate=0.5"]
    assert difference(one, stored_yaml(compose_config(shown))) == []
    assert difference(one, stored_yaml(compose_config(["seeds=2"]))) == ["seeds: 1 there, 2 here"]


def test_flattening_keeps_the_weights_together() -> None:
    nested = {"verdict": {"weights": {"order": 0.6}, "share_floor": 0.5}}
    assert flattened(nested) == {"verdict_weights": {"order": 0.6}, "verdict_share_floor": 0.5}
    assert set(SECTIONS) >= {"gate", "recall", "merge"}
