"""Rendering: how an experience reads, and the text that recall searches (section 4.3).

No provenance id enters these texts, and what is searched holds no label and no boilerplate: labels
make unrelated lessons look alike.
"""

import polars as pl

from memos_flow.library import Library
from memos_flow.wording import Wording, filled, sentence

#: An experience's texts depend on these alone, so they are written once per distinct combination.
_DEPENDS_ON = [
    "lesson_text_id",
    "experience_type",
    "check_kind",
    "field",
    "domain",
    "files",
    "lines",
]
_TEXTS = ("title", "trigger", "procedure", "verification", "boundary", "search")


def rendered(
    policies: pl.LazyFrame, guidance: pl.LazyFrame, library: Library, wording: Wording
) -> pl.LazyFrame:
    """Add the text ids of schema Policies, from the lesson, its guidance lines and its context."""
    lines = (
        library.worded(guidance.sort("lane_id", "policy_id", "line"), "text_id", "text")
        .group_by("lane_id", "policy_id", maintain_order=True)
        .agg(lines=pl.col("text").str.join("\n"))
    )
    keyed = policies.join(lines, on=["lane_id", "policy_id"], how="left").with_columns(
        files=pl.col("file_names").list.join(", ")
    )
    distinct = library.worded(
        keyed.select(_DEPENDS_ON).unique(), "lesson_text_id", "lesson"
    ).with_columns(lines=pl.coalesce("lines", "lesson"), key_lines="lines")
    texts = (
        library.interned(_written(distinct, wording), *_TEXTS)
        .drop("lesson", "lines")
        .rename({"search_text_id": "text_id", "key_lines": "lines"})
    )
    return keyed.join(texts, on=_DEPENDS_ON, how="left", nulls_equal=True).drop("files", "lines")


def _written(distinct: pl.LazyFrame, wording: Wording) -> pl.LazyFrame:
    searched = [pl.col(name).replace("", None) for name in ("lines", "field", "domain", "files")]
    return distinct.with_columns(
        title=filled(
            sentence(wording.title, pl.col("experience_type")), lesson=pl.col("lesson")
        ).str.head(wording.title_characters),
        trigger=_trigger(wording),
        procedure=pl.col("lines"),
        verification=pl.coalesce(
            pl.when(pl.col("check_kind") != "other").then(
                sentence(wording.verification, pl.col("check_kind"))
            ),
            filled(pl.lit(wording.verification_of_text), lesson=pl.col("lesson")),
        ),
        boundary=sentence(wording.boundary, pl.col("experience_type")),
        search=pl.concat_str(searched, separator=" ", ignore_nulls=True),
    )


def _trigger(wording: Wording) -> pl.Expr:
    """When the experience applies, in words that the next task's own text can show."""
    has_files, has_domain = pl.col("files") != "", pl.col("domain").is_not_null()
    has_field = pl.col("field").is_not_null()
    template = (
        pl.when(has_files & has_domain)
        .then(pl.lit(wording.trigger))
        .when(has_domain)
        .then(pl.lit(wording.trigger_domain_only))
        .when(has_files)
        .then(pl.lit(wording.trigger_files_only))
        .when(has_field)
        .then(pl.lit(wording.trigger_unknown))
        .otherwise(pl.lit(wording.trigger_anywhere))
    )
    with_field = pl.concat_str(template, pl.lit(wording.trigger_field))
    return filled(
        pl.when(has_field & (has_files | has_domain)).then(with_field).otherwise(template),
        domain=pl.col("domain").fill_null(""),
        files=pl.col("files"),
        field=pl.col("field").fill_null(""),
    )
