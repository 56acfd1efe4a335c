"""Lessons: actionable sentences and failed checks, and which of them count (section 4.2)."""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import Episodes, Feedback, Trajectories
from memos_flow.schemas.vocabulary import DROP_REASONS, LESSON_ORIGINS, STEP_SPAN
from memos_flow.verdict import severity
from memos_flow.wording import Wording, filled, sentence

#: What the classifier says of a clause and later stages read.
_FEATURES = [
    "shape",
    "classifier_confidence",
    "directive_sign",
    "actionable",
    "says_what_worked",
    "tells_how",
    "states",
    "expects",
    "states_fact",
    "criticises",
    "retracted",
]
#: Separates the steps of a procedure that is read off traces.
THEN = "; then "


def lessons(
    feedback: dy.LazyFrame[Feedback],
    episodes: dy.LazyFrame[Episodes],
    failures: pl.LazyFrame,
    trajectories: dy.LazyFrame[Trajectories],
    settings: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> pl.LazyFrame:
    """One row per lesson of each feedback, gated: `dropped` tells why, null where it counts.

    Columns: those of schema Lessons up to `dropped` (type and effect come later), what the
    classifier said of the clause, `check_name`, `expected`, `actual`, the `outcome` that holds for
    the lesson, its feedback's `source`, and its episode's place in `source_trace_ids`.
    """
    spoken = feedback.join(
        episodes.select(
            "lane_id",
            "episode_step",
            "r_task",
            ruled=pl.when(pl.col("outcome_source") == "payload").then(pl.col("outcome")),
        ),
        on=["lane_id", "episode_step"],
        how="left",
    ).with_columns(
        # The objective outcome beats the wording.
        outcome=pl.coalesce("ruled", "outcome"),
        feedback_severity=pl.col("verifier_severity").fill_null(0.0),
    )
    said = _from_text(spoken, settings, library)
    found = pl.concat(
        [
            said,
            _from_checks(spoken, failures, settings, library, wording),
            _from_traces(_silent_passes(spoken, said), trajectories, library, wording),
        ],
        how="diagonal_relaxed",
    )
    return _gated(
        _numbered(_one_if_whole(_with_silent(found, spoken, library), settings)), settings
    )


def _from_text(spoken: pl.LazyFrame, settings: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """The actionable clauses, or the whole text where the variant does not split it."""
    texts = spoken.filter(pl.col("text_id").is_not_null()).join(
        settings.select("lane_id", "feedback_split", "feedback_bare_negative_actionable"),
        on="lane_id",
        how="left",
    )
    bare = pl.col("feedback_bare_negative_actionable") & (pl.col("shape") == "negative")
    as_whole = (
        texts.join(_whole(texts, library), on="text_id", how="inner")
        .with_columns(*_heard_with_its_outcome())
        .with_columns(actionable=pl.col("actionable") | bare, position=pl.lit(0, pl.Int32))
        .filter(pl.col("actionable") & ((pl.col("feedback_split") == "whole") | bare))
    )
    clauses = library.clauses(texts.select("text_id")).select(
        "text_id", "position", "clause_text_id", *_FEATURES
    )
    by_clause = (
        texts.filter(pl.col("feedback_split") == "lesson")
        .join(clauses, on="text_id", how="inner")
        .with_columns(*_heard_with_its_outcome())
        .filter("actionable")
        .drop("text_id")
        .rename({"clause_text_id": "text_id"})
    )
    return (
        pl.concat([by_clause, as_whole], how="diagonal")
        .drop("feedback_split", "feedback_bare_negative_actionable")
        .with_columns(origin=pl.lit("text"), lesson_severity=pl.col("feedback_severity"))
    )


def _heard_with_its_outcome() -> list[pl.Expr]:
    """What the outcome and the speaker's mood add to the words.

    Of a pass, how it was done is what worked. Of a failure, or said with blame, a plain statement
    is a fact to learn from.
    """
    worked = pl.col("says_what_worked") | (pl.col("tells_how") & (pl.col("outcome") == "pass"))
    blamed = (pl.col("polarity") == "negative") & (pl.col("outcome") != "pass")
    fact = pl.col("states") & (blamed | (pl.col("outcome") == "fail")) & ~worked
    praises = (pl.col("shape") == "positive") & (pl.col("polarity") != "negative")
    return [
        worked.alias("says_what_worked"),
        (pl.col("states_fact") | (fact & ~praises)).alias("states_fact"),
        (pl.col("actionable") | worked | (fact & ~praises)).alias("actionable"),
    ]


def _whole(texts: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    return library.features(texts.select("text_id")).select("text_id", *_FEATURES)


def _from_checks(
    spoken: pl.LazyFrame,
    failures: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> pl.LazyFrame:
    """One per failing check kind and field, so that a terse log still teaches."""
    check = pl.col("check_key").str.replace_all(r"(?i)^test_|_test$", "").str.replace_all("_", " ")
    generic = "|".join(wording.generic_check_words)
    says_nothing = check.str.replace_all(rf"(?i)\b(?:{generic})\b", "").str.contains(r"\w").not_()
    by_name = sentence(wording.check_without_field, pl.col("check_kind"))
    names_field = pl.col("statement").str.contains(
        pl.col("field").str.extract(r"([^.\[\]!]+)[\[\]]*$"), literal=True
    )
    lesson = pl.coalesce(
        pl.when(names_field).then("statement"),
        filled(sentence(wording.check, pl.col("check_kind")), field=pl.col("field")),
        pl.col("statement"),
        # A check that failed for an unknown reason at an unknown place teaches nothing.
        pl.when(~by_name.str.contains("{check}", literal=True))
        .then(by_name)
        .when(~says_nothing & (pl.col("check_kind") != "other"))
        .then(filled(by_name, check=check)),
    )
    worded = library.interned(
        failures.with_columns(
            plain=lesson,
            revealed=filled(pl.lit(wording.revealed), lesson=lesson, expected=pl.col("expected")),
            position=pl.int_range(pl.len(), dtype=pl.Int32).over("execution_id"),
        ),
        "plain",
        "revealed",
    )
    own = severity(
        pl.col("check_kind"), pl.col("relative_error"), pl.col("failing"), pl.col("checks")
    )
    reveals = pl.col("feedback_reveal_expected") & pl.col("revealed_text_id").is_not_null()
    return (
        spoken.drop("text_id")
        .join(worded, on="execution_id", how="inner")
        .join(
            settings.select(
                "lane_id",
                "feedback_reveal_expected",
                "verdict_weights",
                "verdict_share_floor",
                "verdict_numeric_floor",
            ),
            on="lane_id",
            how="left",
        )
        .with_columns(
            origin=pl.lit("check"),
            text_id=pl.when(reveals).then("revealed_text_id").otherwise("plain_text_id"),
            directive_sign=pl.lit("do"),
            lesson_severity=own,
            actionable=pl.col("plain_text_id").is_not_null(),
            expects=pl.lit(True),
        )
        .drop(
            "verdict_weights",
            "verdict_share_floor",
            "verdict_numeric_floor",
            "feedback_reveal_expected",
            "plain_text_id",
            "revealed_text_id",
            "relative_error",
            "failing",
            "checks",
        )
    )


def _silent_passes(spoken: pl.LazyFrame, said: pl.LazyFrame) -> pl.LazyFrame:
    """Verified passes whose text says nothing: the episode itself shows what worked."""
    passes = spoken.filter((pl.col("source") == "verifier") & (pl.col("outcome") == "pass"))
    return passes.join(said, on=["lane_id", "feedback_id"], how="anti").drop("text_id")


def _from_traces(
    passes: pl.LazyFrame,
    trajectories: dy.LazyFrame[Trajectories],
    library: Library,
    wording: Wording,
) -> pl.LazyFrame:
    """The steps that did the work, in order; without any the lesson is dropped (`no-traces`)."""
    worked = trajectories.filter(
        pl.col("action_text_id").is_not_null() & pl.col("error_code").is_null()
    ).sort("execution_id", "position")
    procedures = (
        library.worded(worked, "action_text_id", "action")
        .group_by("execution_id", maintain_order=True)
        .agg(
            procedure=pl.col("action")
            .head(wording.trace_steps)
            .str.head(wording.step_characters)
            .str.join(THEN),
            trace_positions=pl.col("position").head(wording.trace_steps),
        )
    )
    return passes.join(
        library.interned(procedures, "procedure").rename({"procedure_text_id": "text_id"}),
        on="execution_id",
        how="left",
    ).with_columns(
        origin=pl.lit("traces"),
        position=pl.lit(0, pl.Int32),
        lesson_severity=pl.lit(0.0),
        directive_sign=pl.lit("do"),
        says_what_worked=pl.lit(True),
        actionable=pl.col("text_id").is_not_null(),
    )


def _with_silent(found: pl.LazyFrame, spoken: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Add a row for each feedback without any lesson, so that its reason is counted."""
    silent = spoken.join(found, on=["lane_id", "feedback_id"], how="anti").join(
        _whole(spoken, library), on="text_id", how="left"
    )
    return pl.concat(
        [
            found,
            silent.with_columns(
                origin=pl.lit("text"),
                position=pl.lit(0, pl.Int32),
                lesson_severity=pl.col("feedback_severity"),
                actionable=pl.lit(False),
            ),
        ],
        how="diagonal_relaxed",
    )


def _one_if_whole(parts: pl.LazyFrame, settings: pl.LazyFrame) -> pl.LazyFrame:
    """`feedback.split: whole`: one lesson per feedback, what was said, else the worst check."""
    origin = pl.col("origin").cast(pl.Enum(LESSON_ORIGINS))
    first = (
        pl.struct(origin.to_physical(), -pl.col("lesson_severity"), "position")
        .rank("ordinal")
        .over("lane_id", "feedback_id")
        == 1
    )
    return parts.join(
        settings.select("lane_id", "feedback_split"), on="lane_id", how="left"
    ).filter((pl.col("feedback_split") == "lesson") | first)


def _numbered(parts: pl.LazyFrame) -> pl.LazyFrame:
    """Lesson ids in the order of feedback, origin and position."""
    return (
        parts.with_columns(pl.col("origin").cast(pl.Enum(LESSON_ORIGINS)))
        .sort("lane_id", "feedback_id", "origin", "position")
        .with_columns(
            lesson_id=pl.col("step").cast(pl.Int64) * STEP_SPAN
            + pl.int_range(pl.len()).over("lane_id", "step")
        )
    )


def _gated(parts: pl.LazyFrame, settings: pl.LazyFrame) -> pl.LazyFrame:
    """Significance, salience, and the first reason that holds against a lesson.

    significant = explicit and actionable and (magnitude >= theta_m or confidence >= theta_c or
    |r_task| >= theta_r or severity >= theta_v); salience = the largest of the four.
    """
    signals = {
        "magnitude": pl.col("magnitude"),
        "confidence": pl.col("classifier_confidence"),
        "r_task": pl.col("r_task").abs(),
        "severity": pl.col("verifier_severity"),
    }
    above = pl.any_horizontal(
        signal >= pl.col(f"gate_theta_{name}") for name, signal in signals.items()
    )
    explicit = pl.col("channel") == "explicit"
    says_nothing = pl.col("text_id").is_null()
    return (
        parts.join(
            settings.select("lane_id", "feedback_enabled", *_THETAS), on="lane_id", how="left"
        )
        .with_columns(
            pl.col("classifier_confidence", "r_task").fill_null(0.0),
            pl.col(
                *("says_what_worked", "expects", "states_fact", "criticises", "retracted")
            ).fill_null(False),
            verifier_severity=pl.col("lesson_severity").clip(0, 1),
        )
        .with_columns(
            salience=pl.max_horizontal(*signals.values()).clip(0, 1),
            significant=explicit & pl.col("actionable") & above,
        )
        .with_columns(
            dropped=pl.when(~pl.col("feedback_enabled"))
            .then(pl.lit("feedback-path-off"))
            .when(pl.col("quarantine").is_not_null())
            .then(pl.col("quarantine").cast(pl.String))
            .when(pl.col("duplicate"))
            .then(pl.lit("duplicate"))
            .when(~explicit)
            .then(pl.lit("not-explicit"))
            .when(pl.col("retracted"))
            .then(pl.lit("retracted"))
            .when((pl.col("origin") == "traces") & says_nothing)
            .then(pl.lit("no-traces"))
            .when((pl.col("origin") == "text") & says_nothing)
            .then(pl.lit("no-text"))
            .when(~pl.col("actionable"))
            .then(pl.lit("not-actionable"))
            .when(~pl.col("significant"))
            .then(pl.lit("below-significance"))
            .cast(pl.Enum(DROP_REASONS))
        )
        .drop("feedback_enabled", "feedback_split", *_THETAS)
        .sort("lane_id", "lesson_id")
    )


_THETAS = [f"gate_theta_{name}" for name in ("magnitude", "confidence", "r_task", "severity")]
