"""Classify: what a piece of feedback says, as a whole and clause by clause (section 4.2).

Vectorised over texts and linear in their length. Cues are read in a lower-case copy in which code
and quotations stand as one word each: what is quoted is not said by the speaker, and a log that
holds the words says nothing.
"""

import polars as pl

from memos_flow.lexicon import Lexicon
from memos_flow.schemas.vocabulary import DIRECTIVE_SIGNS, QUARANTINE_REASONS, SHAPES

_FENCED = r"(?s)```[^\n`]*\n?(.*?)(?:```|$)"
_WORD = r"[a-z]|\p{Han}"
_HAN = r"\p{Han}"
_BREAK = "\x1e"
#: Columns of the features that a clause inherits from nobody.
_CUES = (
    "confusion",
    "prefer",
    "correct",
    "must",
    "forbid",
    "once",
    "own_plan",
    "fault",
    "bare_fault",
    "praise",
    "acknowledges",
    "worked",
    "fact",
    "hedge",
)


def classified(texts: pl.LazyFrame, clauses: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """One row per text (`text_id`, `text`), in the order given; `clauses` are those of the texts.

    Columns: `text_id`; `shape` (the first of SHAPES that matches), `soft` (hedged, or without an
    object), `classifier_confidence`; `actionable` (a clause of it is); `directive_sign` of its
    first directive; `approves` (praises), `of_the_result` (and nothing else), `rejects` (states a
    fault); `says_what_worked`, `expects` (what it
    should be), `states_fact`, `criticises`; `quarantine` (null where it may pass), `retracted`.
    """
    whole = _with_cues(texts.with_columns(cue=_cue_text(pl.col("text"), lexicon)), lexicon, "text")
    parts = clauses.group_by("text_id").agg(
        actionable=pl.col("actionable").any(),
        says_what_worked=pl.col("says_what_worked").any(),
        tells_how=pl.col("tells_how").any(),
        states=pl.col("states").any(),
        states_fact=pl.col("states_fact").any(),
        directive_sign=pl.col("directive_sign").drop_nulls().first(),
        attacks=pl.col("attacks").any(),
    )
    faulty = pl.col("fault") | pl.col("bare_fault")
    boundary = pl.col("text").str.contains_any(list(lexicon.boundary_phrases))
    attacks = pl.col("cue_raw").str.contains(lexicon.cues["injection"]) | pl.col(
        "attacks"
    ).fill_null(False)
    return (
        whole.with_columns(cue_raw=pl.col("text").str.to_lowercase())
        .join(parts, on="text_id", how="left", maintain_order="left")
        .with_columns(
            retracted=pl.col("cue").str.contains(lexicon.cues["retraction"]),
            quarantine=pl.when(boundary)
            .then(pl.lit("task-boundary-phrase"))
            .when(attacks)
            .then(pl.lit("attack"))
            .cast(pl.Enum(QUARANTINE_REASONS)),
        )
        .with_columns(
            pl.col("says_what_worked", "tells_how", "states", "states_fact").fill_null(False),
            actionable=pl.col("actionable").fill_null(False)
            & ~pl.col("retracted")
            & pl.col("quarantine").is_null(),
            approves=pl.col("praise") & ~faulty & ~pl.col("correct"),
            of_the_result=(~pl.col("has_object") & ~pl.col("acknowledges"))
            | pl.col("says_what_worked"),
            # An order that names a fault does not say that there is one.
            rejects=faulty & (pl.col("correct") | ~(_directs() | pl.col("orders"))),
            expects=pl.col("correct") | pl.col("must"),
            criticises=faulty | pl.col("correct"),
        )
        .select("text_id", *_FEATURES, "approves", "of_the_result", "rejects", "quarantine")
    )


def clauses(texts: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """One row per distinct clause of each text: `text_id`, `position`, `clause` and its features.

    The features are those of `classified`, judged on the clause; a text that takes itself back has
    no actionable clause. `attacks`: the clause attacks the evaluation or tells a secret.
    """
    prose = _prose(pl.col("text"), lexicon)
    split = (
        texts.with_columns(
            context=_cue_text(pl.col("text"), lexicon),
            clause=prose.str.replace_all(r"([?？])", "$1" + _BREAK)
            .str.replace_all(f"(?i)(?:{lexicon.separators})", _BREAK)
            .str.split(_BREAK),
        )
        .with_columns(
            retracted=pl.col("context").str.contains(lexicon.cues["retraction"]),
            praised=pl.col("context").str.contains(lexicon.cues["praise"]),
        )
        .drop("context", "text")
        .explode("clause")
        .with_columns(
            pl.col("clause")
            .str.replace(f"(?i)(?:{lexicon.boilerplate})", "")
            .str.replace(f"(?i)(?:{lexicon.boilerplate})", "")
            .str.strip_chars(" \t\r\n,，、:：")
            .str.head(lexicon.clause_characters)
        )
        .filter(pl.col("clause") != "")
        .unique(["text_id", "clause"], keep="first", maintain_order=True)
    )
    cued = _with_cues(
        split.with_columns(cue=_cue_text(pl.col("clause"), lexicon)), lexicon, "clause"
    )
    return cued.with_columns(
        position=pl.int_range(pl.len(), dtype=pl.Int32).over("text_id"),
    ).select(
        "text_id",
        "position",
        "clause",
        *_FEATURES,
        attacks=(pl.col("tampering") & ~pl.col("forbid")) | pl.col("secret"),
    )


_FEATURES = [
    "shape",
    "soft",
    "classifier_confidence",
    "actionable",
    "directive_sign",
    "says_what_worked",
    "tells_how",
    "states",
    "expects",
    "states_fact",
    "criticises",
    "retracted",
]


def _prose(text: pl.Expr, lexicon: Lexicon) -> pl.Expr:
    """The text without code and log lines; of a text that is nothing else, the errors it shows."""
    outside = text.str.replace_all(_FENCED, "\n").str.replace_all(lexicon.log_lines, "")
    errors = text.str.extract_all(lexicon.error_lines).list.join("\n")
    return pl.when(outside.str.contains(r"\S")).then(outside).otherwise(errors)


def _cue_text(text: pl.Expr, lexicon: Lexicon) -> pl.Expr:
    cue = (
        _prose(text, lexicon)
        .str.to_lowercase()
        .str.replace_all("’", "'", literal=True)
        .str.replace_all(lexicon.inline_code, " codeword ")
        .str.replace_all(lexicon.quotes, " quotation ")
    )
    for find, by in lexicon.rewrites:
        cue = cue.str.replace_all(find, by)
    return cue.str.strip_chars()


def _with_cues(frame: pl.LazyFrame, lexicon: Lexicon, source: str) -> pl.LazyFrame:
    """Add a column per cue of `cue` (made from `source`), and the features that follow."""
    cue = pl.col("cue")
    order = f"(?:^|[:：] ?)(?:please |kindly |请)?(?:{lexicon.cues['imperative']})"
    named_nothing = "|".join(
        lexicon.cues[name]
        for name in ("must", "forbid", "praise", "fault", "bare_fault", "hedge", "once")
    )
    # The verb of an order is not yet what it is about.
    rest = (
        cue.str.replace(order, " ")
        .str.replace_all(f"(?:{named_nothing})", " ")
        .str.replace_all(f"(?:{lexicon.cues['empty_words']})", " ")
    )
    words = rest.str.count_matches(r"[a-z][a-z0-9_.'-]*") + rest.str.count_matches(_HAN) // 2
    return (
        frame.with_columns(
            *(cue.str.contains(lexicon.cues[name]).alias(name) for name in _CUES),
            # An attack may hide in quotation marks, so it is looked for in the text as it is.
            *(
                pl.col(source).str.to_lowercase().str.contains(lexicon.cues[name]).alias(name)
                for name in ("tampering", "secret")
            ),
            orders=cue.str.contains(order),
            # A number is an object only where it says what it should be.
            has_object=rest.str.contains(_WORD)
            | (cue.str.contains(lexicon.cues["correct"]) & rest.str.contains(r"\d")),
            question=cue.str.contains(r"[?？]\s*$"),
            content=words,
        )
        # A hedged prohibition is a wish.
        .with_columns(prefer=pl.col("prefer") | (pl.col("forbid") & pl.col("hedge")))
        .with_columns(shape=_shape(), soft=pl.col("hedge") | ~pl.col("has_object"))
        .with_columns(*_judged(frame.collect_schema().names(), lexicon))
    )


def _shape() -> pl.Expr:
    """In the order of SHAPES: the first that matches."""
    return (
        pl.when("prefer")
        .then(pl.lit("preference"))
        .when("correct")
        .then(pl.lit("correction"))
        .when(pl.col("must") | pl.col("forbid"))
        .then(pl.lit("constraint"))
        .when(pl.col("fault") | pl.col("bare_fault"))
        .then(pl.lit("negative"))
        .when("praise")
        .then(pl.lit("positive"))
        .when(pl.col("confusion") | pl.col("question"))
        .then(pl.lit("confusion"))
        .when(pl.col("orders") | pl.col("once"))
        .then(pl.lit("instruction"))
        .otherwise(pl.lit("unknown"))
        .cast(pl.Enum(SHAPES))
    )


def _directs() -> pl.Expr:
    return pl.col("prefer") | pl.col("correct") | pl.col("must") | pl.col("forbid")


def _judged(columns: list[str], lexicon: Lexicon) -> list[pl.Expr]:
    directs = _directs()
    faulty = pl.col("fault") | pl.col("bare_fault")
    praised = pl.col("praised") if "praised" in columns else pl.col("praise")
    tells_how = pl.col("worked") & pl.col("has_object") & ~faulty & ~directs
    worked = tells_how & (pl.col("praise") | praised)
    fact = (pl.col("fact") | pl.col("fault")) & ~directs
    says = directs | (pl.col("orders") & ~pl.col("once")) | fact | worked
    answerable = ~pl.col("own_plan") & ~pl.col("question") & ~(pl.col("confusion") & ~directs)
    sign = (
        pl.when(pl.col("forbid"))
        .then(pl.lit("do_not"))
        .when(directs | pl.col("orders"))
        .then(pl.lit("do"))
        .cast(pl.Enum(DIRECTIVE_SIGNS))
    )
    kept = ~pl.col("retracted") if "retracted" in columns else pl.lit(True)
    return [
        pl.when("soft")
        .then(_confidence(lexicon, 1))
        .otherwise(_confidence(lexicon, 0))
        .alias("classifier_confidence"),
        (says & answerable & pl.col("has_object") & kept).alias("actionable"),
        sign.alias("directive_sign"),
        worked.alias("says_what_worked"),
        (tells_how & answerable & kept).alias("tells_how"),
        (
            (pl.col("content") >= lexicon.statement_words) & answerable & kept & ~pl.col("once")
        ).alias("states"),
        (pl.col("correct") | pl.col("must")).alias("expects"),
        fact.alias("states_fact"),
        (faulty | pl.col("correct")).alias("criticises"),
    ]


def _confidence(lexicon: Lexicon, firmness: int) -> pl.Expr:
    return (
        pl.col("shape")
        .cast(pl.String)
        .replace_strict(
            {shape: values[firmness] for shape, values in lexicon.confidence.items()},
            return_dtype=pl.Float64,
        )
    )
