"""Calibration: curves worked out by hand, the pairs well-formed, the configured numbers current."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from harness.calibration import (
    UNEQUAL_SIGN,
    above_every_negative,
    best_separation,
    calibrate,
    lesson_pairs_file,
    low_quantile,
    lowest_with_precision,
    main_report,
    precision_recall,
    read_pairs,
    wilson_lower,
)
from harness.embedders import embedder_from
from harness.errors import InputError

EMBEDDER_CONFIGURATIONS = Path(__file__).parent.parent / "conf" / "embedder"
THRESHOLDS = ["merge", "cross_type", "validation", "association", "cluster", "min_recall"]

# Best first: same, different, same, same, different.
SIMILARITIES = [0.9, 0.8, 0.7, 0.5, 0.2]
SAME = [True, False, True, True, False]


def at(threshold):
    return next(
        point for point in precision_recall(SIMILARITIES, SAME) if point.threshold == threshold
    )


@pytest.mark.parametrize(
    ("threshold", "accepted", "correct", "precision", "recall"),
    [
        (0.0, 5, 3, 3 / 5, 1.0),
        (0.5, 4, 3, 3 / 4, 1.0),
        (0.51, 3, 2, 2 / 3, 2 / 3),
        (0.8, 2, 1, 1 / 2, 1 / 3),
        (0.9, 1, 1, 1.0, 1 / 3),
        (0.91, 0, 0, None, 0.0),
    ],
)
def test_curve_by_hand(threshold, accepted, correct, precision, recall):
    point = at(threshold)
    assert (point.accepted, point.correct) == (accepted, correct)
    assert (point.precision, point.recall) == (precision, recall)


def test_lowest_threshold_with_a_precision_needs_enough_pairs():
    curve = precision_recall(SIMILARITIES, SAME)
    assert lowest_with_precision(curve, 0.75, minimum_pairs=1) == 0.21
    assert lowest_with_precision(curve, 0.9, minimum_pairs=1) == 0.81
    assert lowest_with_precision(curve, 0.9, minimum_pairs=2) is None


def test_above_every_negative_keeps_a_margin_and_lets_equal_texts_pass():
    assert above_every_negative(SIMILARITIES, SAME) == 0.81
    assert above_every_negative([0.803], [False]) == 0.82
    assert above_every_negative([0.995], [False]) == 0.99
    assert above_every_negative([0.5], [True]) == 0.01


def test_best_separation_is_the_lowest_of_the_best():
    # From 0.21 to 0.50: all three positives, one of two negatives: 1 - 0.5.
    assert best_separation(SIMILARITIES, SAME) == 0.21


def test_low_quantile_keeps_the_promised_share():
    assert low_quantile([step / 10 for step in range(10)], 0.10) == 0.1
    assert low_quantile([0.333, 0.9], 0.10) == 0.33
    assert low_quantile([-0.5, 0.9], 0.10) == 0.0


def test_wilson_lower_bound():
    # 9 of 10: (0.9 + 0.19207) - 1.95996 * sqrt(0.009 + 0.0096036) = 0.82474, over 1.38415.
    assert wilson_lower(9, 10) == pytest.approx(0.59585, abs=1e-5)
    assert wilson_lower(0, 10) == pytest.approx(0.0)
    assert wilson_lower(0, 0) is None


class TwoWords:
    """Two dimensions: texts that begin with "a" against the rest."""

    name = "two-words"
    dimensions = 2

    def embed(self, texts):
        return np.array([[text[0] == "a", text[0] != "a"] for text in texts], dtype=np.float32)


def test_opposites_are_left_to_the_directive_sign(tmp_path):
    rows = [
        {"left": f"a{i}", "right": f"a{i}!", "kind": "paraphrase", "same_lesson": True}
        for i in range(20)
    ]
    rows += [{"left": "a", "right": "a not", "kind": "opposite", "same_lesson": False}] * 20
    rows += [{"left": "a", "right": "b", "kind": "different_family", "same_lesson": False}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps({"language": "en", **row}) for row in rows))
    found = calibrate(TwoWords(), read_pairs(path))
    # Only the pair of two families, at 0, lies below 0.01.
    assert found.thresholds["merge"] == 0.0
    assert found.thresholds["cross_type"] == 0.01
    assert (found.equal_sign[50].precision, found.equal_sign[50].recall) == (1.0, 1.0)
    assert (found.all_signs[50].precision, found.all_signs[50].recall) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ('{"left": "x"}', "line 2: wrong keys"),
        (
            '{"left": "x", "right": "y", "language": "fr", "kind": "opposite", '
            '"same_lesson": false}',
            "line 2: wrong language, found 'fr'",
        ),
        (
            '{"left": "x", "right": "y", "language": "en", "kind": "opposites", '
            '"same_lesson": false}',
            "line 2: wrong kind, found 'opposites'",
        ),
        (
            '{"left": "x", "right": "y", "language": "en", "kind": "opposite", '
            '"same_lesson": "no"}',
            "line 2: wrong same_lesson, found 'no'",
        ),
    ],
)
def test_a_malformed_pair_is_named_by_its_line(tmp_path, line, message):
    path = tmp_path / "pairs.jsonl"
    good = lesson_pairs_file().read_text(encoding="utf-8").splitlines()[0]
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_pairs(path)


def test_the_pairs_cover_labels_languages_and_kinds():
    pairs = read_pairs(lesson_pairs_file())
    assert len(pairs) >= 180
    assert Counter(pair.same_lesson for pair in pairs).most_common()[-1][1] >= 80
    assert {pair.language for pair in pairs if pair.same_lesson} == {"en", "zh", "mixed"}
    assert {pair.language for pair in pairs if not pair.same_lesson} == {"en", "zh", "mixed"}
    assert min(Counter(pair.kind for pair in pairs).values()) >= 5


def test_the_label_follows_from_the_kind():
    for pair in read_pairs(lesson_pairs_file()):
        assert pair.same_lesson == pair.kind.startswith("paraphrase"), pair
        assert pair.equal_sign == (pair.kind not in UNEQUAL_SIGN), pair


def test_no_pair_occurs_twice_in_either_order():
    pairs = [frozenset((pair.left, pair.right)) for pair in read_pairs(lesson_pairs_file())]
    assert all(len(pair) == 2 for pair in pairs)
    assert [pair for pair, count in Counter(pairs).items() if count > 1] == []


def test_a_chinese_text_is_labelled_so():
    for pair in read_pairs(lesson_pairs_file()):
        chinese = [
            any("一" <= letter <= "鿿" for letter in text) for text in (pair.left, pair.right)
        ]
        expected = {"en": [False, False], "zh": [True, True], "mixed": [False, True]}
        assert chinese == expected[pair.language], pair


@pytest.mark.parametrize("name", ["wordllama", "hashing"])
def test_configured_thresholds_are_what_the_command_computes(name):
    config = yaml.safe_load((EMBEDDER_CONFIGURATIONS / f"{name}.yaml").read_text(encoding="utf-8"))
    text, facts = main_report(embedder_from(config))
    assert config["similarity"] == facts["similarity"]
    block = "similarity:\n" + "".join(
        f"  {name}: {value:.2f}\n" for name, value in config["similarity"].items()
    )
    assert text.endswith(block)
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("path", sorted(EMBEDDER_CONFIGURATIONS.glob("*.yaml")), ids=str)
def test_every_embedder_has_all_thresholds_in_order(path):
    similarity = yaml.safe_load(path.read_text(encoding="utf-8"))["similarity"]
    assert list(similarity) == THRESHOLDS
    assert 0 <= similarity["min_recall"] <= similarity["cluster"] <= similarity["association"]
    assert similarity["validation"] <= similarity["merge"] <= similarity["cross_type"] < 1
