"""Texts to unit vectors, offline and reproducibly.

Three things hold for every embedder here, so that no caller has to care:

- A row depends on its own text only, never on the other texts of the call.
- Rows have unit length up to the rounding below; a text without content is the zero row.
- Components are multiples of 2**-11. The product of two components is then a multiple of
  2**-22, and so is every partial sum of a dot product of two rows; by Cauchy-Schwarz each of
  those sums stays below 4 = 2**24 * 2**-22, which float32 holds without rounding. So the
  similarity of two rows is one exact number, whatever order, thread count or fused
  multiply-add a BLAS uses. The price is an error of about 2e-4 in a cosine of 256 dimensions.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.errors import ConfigurationError

Vectors = NDArray[np.float32]

COMPONENT_STEP = 2.0**-11
# Before its length is taken, a row is scaled to a largest component of 1 and rounded to
# multiples of 2**-20: up to 2**13 squares, each a multiple of 2**-40 and at most 1, then add up
# exactly in float64, again in any order.
PRE_NORM_STEP = 2.0**-20
MAXIMUM_DIMENSIONS = 2**13


class Embedder(Protocol):
    """What the harness asks of an embedder."""

    @property
    def name(self) -> str:
        """The name under which vectors are stored; vectors of two names never meet."""

    @property
    def dimensions(self) -> int:
        """The length of a row."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text, float32 of shape ``(len(texts), dimensions)``, as described above."""


def unit_rows(rows: NDArray[Any]) -> Vectors:
    """Rows scaled to unit length and rounded to multiples of 2**-11.

    Every step is exact or rounds each element for itself, so equal rows give equal bits
    wherever they stand and on whatever machine. A zero row stays zero. Raises
    ``ConfigurationError`` for a value that is not finite.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if rows.shape[1] > MAXIMUM_DIMENSIONS:
        raise ConfigurationError(
            f"{rows.shape[1]} dimensions, at most {MAXIMUM_DIMENSIONS} are exact"
        )
    if not np.isfinite(rows).all():
        raise ConfigurationError("the model returned a vector with a value that is not finite")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest == 0.0, 1.0, largest)
    scaled = np.rint(scaled / PRE_NORM_STEP) * PRE_NORM_STEP
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    unit = scaled / np.where(length == 0.0, 1.0, length)
    return np.asarray(np.rint(unit / COMPONENT_STEP) * COMPONENT_STEP, dtype=np.float32)


def _content(text: str, max_characters: int) -> str:
    """The part of a text that is embedded.

    Lone surrogates are replaced: tokenizers refuse them, and one such text would fail its batch.
    """
    return text.lstrip()[:max_characters].rstrip().encode("utf-8", "replace").decode("utf-8")


class WordLlamaEmbedder:
    """Averaged token vectors of wordllama (``l2_supercat``, 256 dimensions), without a network.

    The weights and the tokenizer come with the wordllama package and are read at the first
    call of ``embed``. Only the first ``max_characters`` characters of a text (after stripping
    white space) are embedded, in lower case: the vocabulary has its own tokens for capitals, and
    in short lessons the first letter of a sentence or a shouted field name would decide.

    The pooling is done here and not by wordllama: it pads every text to the longest one of its
    batch and adds in float32, so that a row depends on its neighbours, and one text of a
    megabyte asks for gigabytes.
    """

    name = "wordllama"
    dimensions = 256

    # Token vectors as multiples of 2**-12: integers add exactly in any order. The largest
    # weight is 8.02 and a character is at most four tokens (its UTF-8 bytes), so that a text
    # of the largest allowed size stays below 2**31.
    _WEIGHT_STEP = 2.0**-12
    _MAX_CHARACTERS = 8192
    # Bounds the working memory, 1 KiB a token; has no influence on a row.
    _CHARACTERS_AT_ONCE = 2**16

    def __init__(self, max_characters: int = 8192) -> None:
        if not 1 <= max_characters <= self._MAX_CHARACTERS:
            raise ConfigurationError(
                f"embedder.max_characters is {max_characters}, expected 1 to {self._MAX_CHARACTERS}"
            )
        self.max_characters = max_characters

    @cached_property
    def _model(self) -> tuple[NDArray[np.int32], Callable[[list[str]], list[list[int]]]]:
        with _root_logger_kept():
            wordllama = import_module("wordllama")
            # A package folder that lacks its files must be an error, not a download.
            folder = Path(str(wordllama.__file__)).parent
            model = wordllama.WordLlama.load(
                dim=self.dimensions, cache_dir=folder, disable_download=True
            )
        model.tokenizer.no_padding()
        table = np.rint(model.embedding / self._WEIGHT_STEP).astype(np.int32)

        def token_ids(texts: list[str]) -> list[list[int]]:
            encoded = model.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            return [encoding.ids for encoding in encoded]

        return table, token_ids

    def embed(self, texts: Sequence[str]) -> Vectors:
        table, token_ids = self._model
        # Cut once more, because lower-casing can lengthen a text ("İ" becomes two characters).
        contents = [
            _content(text, self.max_characters).lower()[: self.max_characters] for text in texts
        ]
        sums = np.zeros((len(contents), self.dimensions), dtype=np.int32)
        for start, stop in _chunks(
            [len(content) for content in contents], self._CHARACTERS_AT_ONCE
        ):
            ids = token_ids(contents[start:stop])
            counts = np.array([len(of_text) for of_text in ids])
            # One length at a time: nothing is padded, and numpy adds whole blocks.
            for count in np.unique(counts[counts > 0]):
                places = np.flatnonzero(counts == count)
                block = table[np.array([ids[place] for place in places])]
                sums[start + places] = block.sum(axis=1, dtype=np.int32)
        return unit_rows(sums)


def _chunks(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges whose sizes add up to at most ``limit``, or hold a single item."""
    start, total = 0, 0
    for position, size in enumerate(sizes):
        if position > start and total + size > limit:
            yield start, position
            start, total = position, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Undoes what an import does to the root logger: wordllama's calls ``basicConfig``."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class HashingEmbedder:
    """Signed feature hashing: no model, no vocabulary, the same on every machine.

    Features are the lower-cased words, their character trigrams with word borders (``#by#``
    gives ``#by`` and ``by#``), and the single characters and neighbouring pairs of runs of Han
    characters. A feature's BLAKE2b digest chooses its component and its sign (Weinberger et
    al., "Feature Hashing for Large Scale Multitask Learning", 2009). It sees shared wording
    only, never meaning; a text of symbols alone is the zero row. Only the first
    ``max_characters`` characters are embedded.
    """

    name = "hashing"

    def __init__(self, dimensions: int = 256, max_characters: int = 8192) -> None:
        if not 1 <= dimensions <= MAXIMUM_DIMENSIONS:
            raise ConfigurationError(
                f"embedder.dimensions is {dimensions}, expected 1 to {MAXIMUM_DIMENSIONS}"
            )
        if max_characters < 1:
            raise ConfigurationError(
                f"embedder.max_characters is {max_characters}, expected 1 or more"
            )
        self.dimensions = dimensions
        self.max_characters = max_characters

    def embed(self, texts: Sequence[str]) -> Vectors:
        counts = np.zeros((len(texts), self.dimensions), dtype=np.int64)
        for row, text in zip(counts, texts, strict=True):
            hashes = [_hash(item) for item in _features(_content(text, self.max_characters))]
            columns = [number % self.dimensions for number, _ in hashes]
            np.add.at(row, columns, [sign for _, sign in hashes])
        return unit_rows(counts)


_HAN = "㐀-䶿一-鿿豈-﫿"
_RUN = re.compile(f"[{_HAN}]+|[^\\W{_HAN}]+")
_HAN_START = re.compile(f"[{_HAN}]")


def _features(text: str) -> Iterator[str]:
    for run in _RUN.findall(text.lower()):
        if _HAN_START.match(run):
            yield from run
            yield from (run[start : start + 2] for start in range(len(run) - 1))
        else:
            bordered = f"#{run}#"
            # Brackets keep a whole word apart from a trigram of the same letters.
            yield f"[{run}]"
            yield from (bordered[start : start + 3] for start in range(len(bordered) - 2))


@lru_cache(maxsize=2**17)
def _hash(feature: str) -> tuple[int, int]:
    """A 63-bit number and a sign, +1 or -1. Python's ``hash`` differs from process to process."""
    digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
    return digest >> 1, 1 if digest & 1 else -1


class SentenceTransformerEmbedder:
    """A sentence-transformers model, named by ``model`` (a local folder or a hub name).

    Each text is its own batch, because padding to a longer neighbour changes a transformer's
    output; this is slower than batching. The model truncates at its own ``max_seq_length``
    tokens; only the first ``max_characters`` characters reach its tokenizer. Rounding absorbs
    most, but not provably all, of the floating-point differences between machines.
    """

    def __init__(self, model: str, max_characters: int = 8192) -> None:
        self.name = f"sentence_transformers:{model}"
        self.model = model
        self.max_characters = max_characters

    @cached_property
    def _loaded(self) -> Any:
        try:
            package = import_module("sentence_transformers")
        except ImportError as error:
            raise ConfigurationError(
                "embedder 'sentence_transformers' needs a package that is not installed: "
                "pip install 'memos-flow[sentence-transformers]'"
            ) from error
        return package.SentenceTransformer(self.model, device="cpu")

    @property
    def dimensions(self) -> int:
        return int(self._loaded.get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> Vectors:
        contents = [_content(text, self.max_characters) for text in texts]
        rows = np.zeros((len(contents), self.dimensions), dtype=np.float32)
        for row, content in zip(rows, contents, strict=True):
            if content:
                row[:] = self._loaded.encode([content], batch_size=1, show_progress_bar=False)[0]
        return unit_rows(rows)


_EMBEDDERS: dict[str, Callable[..., Embedder]] = {
    "wordllama": WordLlamaEmbedder,
    "hashing": HashingEmbedder,
    "sentence_transformers": SentenceTransformerEmbedder,
}


def embedder_from(config: Mapping[str, Any]) -> Embedder:
    """The embedder of the configuration group ``embedder``.

    ``name`` chooses it; ``similarity`` holds its calibrated thresholds and belongs to the
    memory; every other key is a parameter of the embedder. Raises ``ConfigurationError`` for an
    unknown name or parameter, or a value out of range.
    """
    name = config.get("name")
    if name not in _EMBEDDERS:
        raise ConfigurationError(f"embedder.name is {name!r}, expected one of {sorted(_EMBEDDERS)}")
    parameters = {key: config[key] for key in config if key not in ("name", "similarity")}
    try:
        return _EMBEDDERS[name](**parameters)
    except TypeError as error:
        raise ConfigurationError(f"embedder {name!r}: {error}") from error
