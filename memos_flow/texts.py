"""Texts are stored once and named by a hash of their content."""

from collections.abc import Iterable
from hashlib import blake2b

import polars as pl

_NOT_ONE_TEXT = "\x1f"


def content_id(*parts: object) -> int:
    """A 64-bit signed id of the parts, the same on every machine and in every version.

    Parts are joined by the ASCII unit separator, so `("a", "b")` and `("ab",)` differ.
    """
    joined = _NOT_ONE_TEXT.join("" if part is None else str(part) for part in parts)
    digest = blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def texts_frame(texts: Iterable[str]) -> pl.DataFrame:
    """`text_id`, `text` of the distinct texts, in order of id.

    The one loop over values in this package: Polars has no hash that is stable across versions,
    and a distinct text is hashed once, however many lanes carry it.
    """
    distinct = dict.fromkeys(texts)
    return pl.DataFrame(
        {"text_id": [content_id(text) for text in distinct], "text": list(distinct)},
        schema={"text_id": pl.Int64, "text": pl.String},
    ).sort("text_id")
