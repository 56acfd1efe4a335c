"""Domains: what environment a text speaks of, by terms that are data (section 4.5)."""

from collections.abc import Mapping
from typing import NotRequired, TypedDict

import polars as pl

#: Beside these a term is a word of its own; Han characters are neighbours like any other.
_LETTER = "a-z0-9_"


class Terms(TypedDict):
    """The terms of one domain."""

    strong: list[str]
    weak: NotRequired[list[str]]
    tool_name: NotRequired[str]
    tool: NotRequired[list[str]]


def tagged(texts: pl.LazyFrame, terms: Mapping[str, Terms]) -> pl.LazyFrame:
    """`text_id`, `domain`, `tool` of each text (`text_id`, `text`); null where nothing is tagged.

    A domain needs one of its `strong` terms, or two distinct `weak` ones; of several domains the
    one with the most distinct terms wins, then the one named first. A tool needs one of its
    `tool` terms. Terms are matched as whole words, without regard to case.
    """
    lowered = texts.with_columns(pl.col("text").str.to_lowercase())
    return lowered.select(
        "text_id",
        domain=_best({name: _domain_score(domain) for name, domain in terms.items()}),
        tool=_best(
            {
                domain["tool_name"]: _matches(domain["tool"])
                for domain in terms.values()
                if "tool_name" in domain
            }
        ),
    )


def _matches(terms: list[str]) -> pl.Expr:
    """How many distinct terms the text holds."""
    return pl.sum_horizontal(
        pl.lit(0, pl.Int32),
        *(
            pl.col("text")
            .str.contains(rf"(?:^|[^{_LETTER}]){pl.escape_regex(term)}s?(?:$|[^{_LETTER}])")
            .cast(pl.Int32)
            for term in terms
        ),
    )


def _domain_score(terms: Terms) -> pl.Expr:
    strong = _matches(terms["strong"])
    weak = _matches(terms.get("weak", []))
    return pl.when((strong >= 1) | (weak >= 2)).then(strong + weak).otherwise(0)


def _best(scores: Mapping[str, pl.Expr]) -> pl.Expr:
    highest = pl.max_horizontal(scores.values())
    return pl.coalesce(
        pl.when((highest > 0) & (score == highest)).then(pl.lit(name))
        for name, score in scores.items()
    )
