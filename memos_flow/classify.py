"""Classify: what a piece of feedback says, as a whole and clause by clause (section 4.2).

Vectorised over texts and linear in their length. Cues are read in a lower-case copy in which code
and quotations stand as one word each: what is quoted is not said by the speaker, and a log that
holds the words says nothing.
"""

from collections.abc import Callable

import polars as pl

from memos_flow.lexicon import Lexicon, any_of
from memos_flow.schemas.vocabulary import DIRECTIVE_SIGNS, QUARANTINE_REASONS, SHAPES
from memos_flow.texts import texts_frame

_FENCED = r"(?s)```[^\n`]*\n?(.*?)(?:```|$)"
_HAN = r"\p{Han}"
_BREAK = "\x1e"
#: Cues that most texts have none of: each is looked for only where any of its group is.
_SELDOM = {
    "aside": ("confusion", "prefer", "once", "own_plan", "retraction", "hedge"),
    "rule": ("must", "forbid"),
}
_OFTEN = ("correct", "fault", "bare_fault", "praise", "acknowledges", "worked", "fact")
#: An attack may hide in quotation marks, so it is looked for in the text as it is.
_ATTACKS = ("injection", "tampering", "secret")
#: Texts worth a thread of their own: each compiles the cues anew, 10 ms.
_TEXTS_A_THREAD = 2_000


def understood(texts: pl.DataFrame, lexicon: Lexicon) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The texts (`text_id`, `text`, a row each) as `classified`, and their `clauses`.

    What texts and clauses say in the same words is read once.
    """
    parts = _side_by_side(texts, lambda some: _split(some, lexicon))
    named = texts_frame(parts["clause"].unique())
    parts = parts.join(
        named.rename({"text_id": "clause_text_id", "text": "clause"}),
        on="clause",
        how="left",
        maintain_order="left",
    )
    said = pl.concat([texts.select("text_id", "text"), named]).unique("text_id")
    cues = _side_by_side(said, lambda some: _cues(some, lexicon))
    whole = texts.join(cues, on="text_id", how="left", maintain_order="left")
    found = _rows(clauses(parts.lazy(), whole.lazy(), cues.lazy(), lexicon))
    return _rows(classified(whole.lazy(), found.lazy(), lexicon)), found


def classified(whole: pl.LazyFrame, clauses: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """One row per text (`text_id`, `text` and its cues), in the order given; `clauses`: theirs.

    Columns: `text_id`; `shape` (the first of SHAPES that matches), `soft` (hedged, or without an
    object), `classifier_confidence`; `actionable`; `directive_sign` (`do_not` where it forbids
    anything); `approves` (praises), `of_the_result` (and nothing else), `rejects` (states a
    fault); `says_what_worked`, `expects` (what it
    should be), `states_fact`, `criticises`; `quarantine` (null where it may pass), `retracted`.
    """
    attacked = clauses.filter("attacks").select("text_id", attacks=pl.lit(True)).unique()
    faulty = pl.col("fault") | pl.col("bare_fault")
    boundary = pl.col("text").str.contains_any(list(lexicon.boundary_phrases))
    return (
        whole.join(attacked, on="text_id", how="left", maintain_order="left")
        .with_columns(_judged(lexicon, praised=pl.col("praise"), kept=pl.lit(True)))
        .with_columns(
            retracted=pl.col("retraction"),
            quarantine=pl.when(boundary)
            .then(pl.lit("task-boundary-phrase"))
            .when(pl.col("injection") | pl.col("attacks").fill_null(False))
            .then(pl.lit("attack"))
            .cast(pl.Enum(QUARANTINE_REASONS)),
        )
        .with_columns(
            actionable=pl.col("actionable") & ~pl.col("retracted") & pl.col("quarantine").is_null(),
            approves=pl.col("praise") & ~faulty & ~pl.col("correct"),
            of_the_result=(~pl.col("has_object") & ~pl.col("acknowledges"))
            | pl.col("says_what_worked"),
            # An order that names a fault does not say that there is one.
            rejects=faulty & (pl.col("correct") | ~(_directs() | pl.col("orders"))),
        )
        .select("text_id", *_FEATURES, "approves", "of_the_result", "rejects", "quarantine")
    )


def clauses(
    parts: pl.LazyFrame, whole: pl.LazyFrame, cues: pl.LazyFrame, lexicon: Lexicon
) -> pl.LazyFrame:
    """One row per distinct clause of each text: `text_id`, `position`, `clause`, its features and
    `clause_text_id`. `parts`: what the texts say; `whole`: their own cues; `cues`: of every clause.

    The features are those of `classified`, judged on the clause; a text that takes itself back has
    no actionable clause. `attacks`: the clause attacks the evaluation or tells a secret.
    """
    context = whole.select("text_id", retracted="retraction", praised="praise")
    return (
        parts.join(
            cues.rename({"text_id": "clause_text_id"}),
            on="clause_text_id",
            how="left",
            maintain_order="left",
        )
        .join(context, on="text_id", how="left", maintain_order="left")
        .with_columns(
            _judged(
                lexicon,
                praised=pl.col("praise") | pl.col("praised"),
                kept=~pl.col("retracted"),
            )
        )
        .select(
            "text_id",
            "position",
            "clause",
            *_FEATURES,
            attacks=(pl.col("tampering") & ~pl.col("forbid")) | pl.col("secret"),
            clause_text_id="clause_text_id",
        )
    )


def _split(texts: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """The distinct clauses of each text, in order: `text_id`, `position`, `clause`."""
    number = pl.int_range(pl.len(), dtype=pl.Int32)
    # The clauses of a text stand together.
    begins = (pl.col("text_id") != pl.col("text_id").shift()).fill_null(True)
    return (
        _with_prose(texts, lexicon)
        .select(
            "text_id",
            clause=pl.col("prose")
            .str.replace_all("?", "?" + _BREAK, literal=True)
            .str.replace_all("？", "？" + _BREAK, literal=True)
            .str.replace_all(f"(?i)(?:{lexicon.separators})", _BREAK)
            .str.split(_BREAK),
        )
        .explode("clause")
        .with_columns(
            pl.col("clause")
            .str.replace(f"(?i)(?:{lexicon.boilerplate})", "")
            .str.replace(f"(?i)(?:{lexicon.boilerplate})", "")
            .str.strip_chars(" \t\r\n,，、:：")
            .str.head(lexicon.clause_characters)
        )
        .filter(pl.col("clause") != "")
        .filter(pl.struct("text_id", "clause").is_first_distinct())
        .with_columns(position=number - pl.when(begins).then(number).forward_fill())
        .select("text_id", "position", "clause")
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


def _with_prose(texts: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """Add `prose`: the text without code and log lines; of a text that is nothing else, the errors
    it shows."""
    silent = ~pl.col("prose").str.contains(r"\S")
    errors = pl.col("text").filter(silent).str.extract_all(lexicon.error_lines).list.join("\n")
    return texts.with_columns(
        prose=pl.col("text").str.replace_all(_FENCED, "\n").str.replace_all(lexicon.log_lines, "")
    ).with_columns(prose=pl.coalesce(_placed(errors, silent), "prose"))


def _with_cue_text(texts: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """Add `cue`: the prose as the cues are read in it."""
    read = _with_prose(texts, lexicon).with_columns(
        cue=pl.col("prose")
        .str.to_lowercase()
        .str.replace_all("’", "'", literal=True)
        .str.replace_all(lexicon.inline_code, " codeword ")
        .str.replace_all(lexicon.quotes, " quotation ")
    )
    # Most texts need none: what none of some rules finds, none of them changes.
    for rules in lexicon.rewrites:
        rewritten = pl.col("cue").filter("found")
        for find, by in rules:
            rewritten = rewritten.str.replace_all(find, by)
        read = read.with_columns(
            found=pl.col("cue").str.contains(any_of(find for find, _ in rules))
        ).with_columns(cue=pl.coalesce(_placed(rewritten, pl.col("found")), "cue"))
    return read.with_columns(pl.col("cue").str.strip_chars()).drop("prose", "found")


def _cues(texts: pl.LazyFrame, lexicon: Lexicon) -> pl.LazyFrame:
    """Per text: `text_id`, a column per cue, and what follows from the text alone."""
    cue, raw, rest = pl.col("cue"), pl.col("raw"), pl.col("rest")
    order = f"(?:^|[:：] ?)(?:please |kindly |请)?(?:{lexicon.cues['imperative']})"
    named_nothing = "|".join(
        lexicon.cues[name]
        for name in ("must", "forbid", "praise", "fault", "bare_fault", "hedge", "once")
    )
    beyond_ascii = rest.str.len_bytes() != rest.str.len_chars()
    han = rest.filter(beyond_ascii).str.count_matches(_HAN)
    # A number is an object only where it says what it should be.
    number = rest.filter("correct").str.contains(r"\d")
    return (
        _with_cue_text(texts, lexicon)
        .with_columns(raw=pl.col("text").str.to_lowercase())
        .with_columns(
            *(cue.str.contains(lexicon.cues[name]).alias(name) for name in _OFTEN),
            *(raw.str.contains(lexicon.cues[name]).alias(name) for name in _ATTACKS),
            *(
                cue.str.contains(any_of(lexicon.cues[name] for name in names)).alias(group)
                for group, names in _SELDOM.items()
            ),
            # The verb of an order is not yet what it is about.
            unordered=cue.str.replace(order, " "),
            question=cue.str.contains(r"[?？]\s*$"),
        )
        .with_columns(
            *(
                (pl.col(group) & _placed(found, pl.col(group))).alias(name)
                for group, names in _SELDOM.items()
                for name in names
                for found in [cue.filter(group).str.contains(lexicon.cues[name])]
            ),
            orders=pl.col("unordered") != cue,
            rest=pl.col("unordered")
            .str.replace_all(f"(?:{named_nothing})", " ")
            .str.replace_all(f"(?:{lexicon.cues['empty_words']})", " "),
        )
        .with_columns(
            words=rest.str.count_matches(r"[a-z][a-z0-9_.'-]*"),
            han=_placed(han, beyond_ascii).fill_null(0),
            number=pl.col("correct") & _placed(number, pl.col("correct")),
        )
        .with_columns(
            has_object=(pl.col("words") > 0) | (pl.col("han") > 0) | pl.col("number"),
            content=pl.col("words") + pl.col("han") // 2,
            # A hedged prohibition is a wish.
            prefer=pl.col("prefer") | (pl.col("forbid") & pl.col("hedge")),
        )
        .with_columns(shape=_shape(), soft=pl.col("hedge") | ~pl.col("has_object"))
        .with_columns(
            classifier_confidence=pl.when("soft")
            .then(_confidence(lexicon, 1))
            .otherwise(_confidence(lexicon, 0))
        )
        .drop("text", "cue", "raw", "unordered", "rest", "words", "han", "number", *_SELDOM)
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


def _judged(lexicon: Lexicon, praised: pl.Expr, kept: pl.Expr) -> list[pl.Expr]:
    directs = _directs()
    faulty = pl.col("fault") | pl.col("bare_fault")
    tells_how = pl.col("worked") & pl.col("has_object") & ~faulty & ~directs
    worked = tells_how & praised
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
    return [
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


def _placed(found: pl.Expr, rows: pl.Expr) -> pl.Expr:
    """What was found in these rows, read alone, where it belongs; null in the other rows."""
    return found.gather(pl.when(rows).then(rows.cum_sum() - 1))


def _side_by_side(
    texts: pl.DataFrame, read: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> pl.DataFrame:
    """Each thread reads some of the texts, where they are many: a text is read by itself."""
    rows = max(_TEXTS_A_THREAD, -(-texts.height // pl.thread_pool_size()))
    starts = range(0, max(texts.height, 1), rows)
    return _rows(pl.concat([read(texts.slice(start, rows).lazy()) for start in starts]))


def _rows(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")
