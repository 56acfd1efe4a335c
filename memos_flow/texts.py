"""Texts are stored once and named by a hash of their content."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import polars as pl

_NOT_ONE_TEXT = "\x1f"
#: Eight bytes of a digest, read as a signed number.
_BIG_ENDIAN = ">i8"


def content_id(*parts: object) -> int:
    """A 64-bit signed id of the parts, the same on every machine and in every version.

    Parts are joined by the ASCII unit separator, so `("a", "b")` and `("ab",)` differ.
    """
    joined = _NOT_ONE_TEXT.join("" if part is None else str(part) for part in parts)
    return int.from_bytes(_digest(joined), "big", signed=True)


def texts_frame(texts: Iterable[str]) -> pl.DataFrame:
    """`text_id` (`content_id` of the text), `text` of the distinct texts, in order of id.

    The one loop over values in this package: Polars has no hash that is stable across versions,
    and a distinct text is hashed once, however many lanes carry it.
    """
    distinct = dict.fromkeys(texts)
    digests = b"".join(map(_digest, distinct))
    return pl.DataFrame(
        {"text_id": np.frombuffer(digests, _BIG_ENDIAN).astype(np.int64), "text": list(distinct)},
        schema={"text_id": pl.Int64, "text": pl.String},
    ).sort("text_id")


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
