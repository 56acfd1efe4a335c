"""Embedders: rows depend on their own text only, and their products are exact."""

import logging
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedders import (
    COMPONENT_STEP,
    Embedder,
    HashingEmbedder,
    SentenceTransformerEmbedder,
    WordLlamaEmbedder,
    embedder_from,
    unit_rows,
)
from harness.errors import ConfigurationError

WORDLLAMA = WordLlamaEmbedder()
OFFLINE = [WORDLLAMA, HashingEmbedder()]
TEXTS = [
    "Do not sort by value.",
    "Sort by value.",
    "",
    "保留 CUSIP 的前导零。",
    "Parse every infoTable record before aggregating the holdings. " * 40,
    "x",
]

offline = pytest.mark.parametrize("embedder", OFFLINE, ids=lambda embedder: embedder.name)


@offline
def test_one_float32_row_per_text(embedder: Embedder):
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimensions) == (6, 256)
    assert embedder.embed([]).shape == (0, 256)


@offline
def test_rows_have_unit_length_up_to_the_rounding(embedder: Embedder):
    length = np.linalg.norm(embedder.embed([text for text in TEXTS if text]), axis=1)
    # At most half a step of error in each of 256 components: 16 * 2**-12.
    assert np.abs(length - 1).max() < 16 * 2**-12


@offline
def test_a_text_without_content_is_the_zero_row(embedder: Embedder):
    assert not embedder.embed(["", " \n\t "]).any()


@offline
def test_a_row_does_not_depend_on_the_other_texts(embedder: Embedder):
    together = embedder.embed(TEXTS)
    alone = np.vstack([embedder.embed([text]) for text in TEXTS])
    reversed_order = embedder.embed(TEXTS[::-1])[::-1]
    assert together.tobytes() == alone.tobytes()
    assert together.tobytes() == np.ascontiguousarray(reversed_order).tobytes()


@offline
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=6), data=st.data())
def test_a_row_does_not_depend_on_its_batch_for_any_text(embedder, texts, data):
    position = data.draw(st.integers(0, len(texts) - 1))
    assert np.array_equal(embedder.embed(texts)[position], embedder.embed([texts[position]])[0])


def test_chunks_leave_wordllama_rows_as_they_are(monkeypatch):
    whole = WORDLLAMA.embed(TEXTS)
    monkeypatch.setattr(WordLlamaEmbedder, "_CHARACTERS_AT_ONCE", 1)
    assert np.array_equal(WORDLLAMA.embed(TEXTS), whole)


@offline
def test_similarities_are_exact_in_any_order_of_addition(embedder: Embedder):
    rows = embedder.embed(TEXTS)
    assert np.array_equal(rows / COMPONENT_STEP, np.rint(rows / COMPONENT_STEP))
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    shuffled = np.random.default_rng(0).permutation(rows.shape[1])
    assert np.array_equal(rows @ rows.T, exact)
    assert np.array_equal(rows[:, shuffled] @ rows[:, shuffled].T, exact)
    one_by_one = np.zeros((len(TEXTS), len(TEXTS)), dtype=np.float32)
    for column in rows.T:
        one_by_one += np.outer(column, column)
    assert np.array_equal(one_by_one, exact)


@offline
def test_a_megabyte_is_truncated_and_fails_nobody(embedder: Embedder):
    long = "按 CUSIP 排序, then sum. " * 50_000
    rows = embedder.embed(["Sort by value.", long, "é" * 1_000_000, "🙂" * 1_000_000])
    assert np.array_equal(rows[0], embedder.embed(["Sort by value."])[0])
    assert np.array_equal(rows[1], embedder.embed([long[:8192]])[0])
    assert rows[2].any()
    assert rows.shape == (4, 256)


@offline
def test_a_lone_surrogate_fails_nobody(embedder: Embedder):
    rows = embedder.embed(["sort \ud800 by value", "sort ? by value"])
    assert np.array_equal(rows[0], rows[1])


@offline
def test_capitals_do_not_matter(embedder: Embedder):
    lower, upper = embedder.embed(["sort by cusip", "SORT by CUSIP"])
    assert np.array_equal(lower, upper)


def test_only_the_first_characters_count():
    for embedder in (WordLlamaEmbedder(max_characters=4), HashingEmbedder(max_characters=4)):
        left, right = embedder.embed(["sort by value", "  sorted"])
        assert np.array_equal(left, right)


def test_unit_rows_by_hand():
    # 3-4-5: 0.6 * 2048 = 1228.8 and 0.8 * 2048 = 1638.4.
    rows = unit_rows(np.array([[3, 4], [-300, 400], [0, 0]]))
    expected = np.array([[1229, 1638], [-1229, 1638], [0, 0]]) / 2048
    assert np.array_equal(rows, expected.astype(np.float32))


def test_unit_rows_refuses_what_is_not_finite():
    with pytest.raises(ConfigurationError, match="not finite"):
        unit_rows(np.array([[np.nan, 1.0]]))


def test_unit_rows_refuses_more_dimensions_than_add_up_exactly():
    with pytest.raises(ConfigurationError, match="8193 dimensions"):
        unit_rows(np.zeros((1, 8193)))


def test_hashing_features_of_a_chinese_text_overlap_by_characters_and_pairs():
    same, shared, other = HashingEmbedder().embed(["前导零", "保留前导零", "血糖"])
    assert same @ shared > 0.6
    assert abs(same @ other) < 0.2


def test_hashing_is_the_same_in_another_process():
    code = (
        "from harness.embedders import HashingEmbedder; "
        "print(HashingEmbedder().embed(['Sort by CUSIP 排序']).tobytes().hex())"
    )
    command = [sys.executable, "-c", code]
    elsewhere = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert elsewhere == HashingEmbedder().embed(["Sort by CUSIP 排序"]).tobytes().hex()


def test_wordllama_sees_meaning_beyond_shared_words():
    holdings, paraphrase, glucose = WORDLLAMA.embed(
        ["Sum the shares of each issuer.", "Add up stock per company.", "Convert glucose units."]
    )
    assert holdings @ paraphrase > holdings @ glucose


def test_wordllama_is_silent_and_leaves_the_root_logger_alone():
    code = (
        "import logging; from harness.embedders import WordLlamaEmbedder; "
        "WordLlamaEmbedder().embed(['x']); root = logging.getLogger(); "
        "assert root.handlers == [] and root.level == logging.WARNING"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert logging.getLogger().level == logging.WARNING


def test_building_an_embedder_loads_no_model():
    code = (
        "import sys; from harness.embedders import embedder_from; "
        "embedder_from({'name': 'wordllama'}); "
        "embedder_from({'name': 'sentence_transformers', 'model': 'm'}); "
        "assert not {'wordllama', 'sentence_transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sentence_transformers_missing_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'memos-flow\[sentence-transform"):
        SentenceTransformerEmbedder("some-model").embed(["x"])


def test_sentence_transformers_embeds_each_text_alone(monkeypatch):
    batches: list[list[str]] = []

    class Model:
        def __init__(self, model: str, device: str) -> None:
            assert (model, device) == ("some-model", "cpu")

        def get_sentence_embedding_dimension(self) -> int:
            return 2

        def encode(self, texts: list[str], **options: object) -> np.ndarray:
            batches.append(texts)
            return np.array([[3.0, 4.0]], dtype=np.float32)

    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    embedder = embedder_from({"name": "sentence_transformers", "model": "some-model"})
    rows = embedder.embed(["one", "", "two"])
    assert embedder.name == "sentence_transformers:some-model"
    assert batches == [["one"], ["two"]]
    assert np.array_equal(rows * 2048, [[1229, 1638], [0, 0], [1229, 1638]])


def test_embedder_from_passes_parameters_and_leaves_the_thresholds_to_the_memory():
    config = {"name": "hashing", "dimensions": 64, "similarity": {"merge": 0.9}}
    assert embedder_from(config).embed(["x"]).shape == (1, 64)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "embedder.name is None, expected one of"),
        ({"name": "word2vec"}, "'word2vec', expected one of"),
        ({"name": "hashing", "dimension": 64}, "unexpected keyword argument 'dimension'"),
        ({"name": "hashing", "dimensions": 0}, "embedder.dimensions is 0"),
        ({"name": "hashing", "max_characters": 0}, "embedder.max_characters is 0"),
        ({"name": "wordllama", "max_characters": 8193}, "expected 1 to 8192"),
        ({"name": "sentence_transformers"}, "missing 1 required positional argument: 'model'"),
    ],
)
def test_embedder_from_refuses(config, message):
    with pytest.raises(ConfigurationError, match=message):
        embedder_from(config)
