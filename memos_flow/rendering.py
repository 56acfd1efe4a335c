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
    # Lines stand as their ids until one of each combination is put into words.
    lines = (
        guidance.sort("lane_id", "policy_id", "line")
        .group_by("lane_id", "policy_id", maintain_order=True)
        .agg(lines=pl.col("text_id").cast(pl.String).str.join(" "))
    )
    keyed = _now(
        policies.join(lines, on=["lane_id", "policy_id"], how="left").with_columns(
            files=pl.col("file_names").list.join(", ")
        )
    ).lazy()
    distinct = _now(keyed.select(_DEPENDS_ON).unique()).lazy()
    worded = library.worded(distinct, "lesson_text_id", "lesson").join(
        _in_words(distinct, library), on="lines", how="left"
    )
    texts = (
        library.interned(_written(worded, wording), *_TEXTS)
        .drop("lesson", "procedure_lines")
        .rename({"search_text_id": "text_id"})
    )
    return keyed.join(texts, on=_DEPENDS_ON, how="left", nulls_equal=True).drop("files", "lines")


def _in_words(distinct: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """`lines` (ids) with the text that they stand for, `procedure_lines`."""
    ids = (
        distinct.select("lines")
        .drop_nulls()
        .unique()
        .with_columns(text_id=pl.col("lines").str.split(" ").cast(pl.List(pl.Int64)))
    )
    return (
        library.worded(ids.explode("text_id"), "text_id", "text")
        .group_by("lines", maintain_order=True)
        .agg(procedure_lines=pl.col("text").str.join("\n"))
    )


def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")


def _written(distinct: pl.LazyFrame, wording: Wording) -> pl.LazyFrame:
    lines = pl.coalesce("procedure_lines", "lesson")
    searched = [
        lines,
        *(pl.col(name).replace("", None) for name in ("field", "domain", "files")),
    ]
    return distinct.with_columns(
        title=filled(
            sentence(wording.title, pl.col("experience_type")), lesson=pl.col("lesson")
        ).str.head(wording.title_characters),
        trigger=_trigger(wording),
        procedure=lines,
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
