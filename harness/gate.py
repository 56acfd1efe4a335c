"""Gate: what an empty memory would make of feedback rows; nothing is stored (section 7)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import dataframely as dy
import polars as pl

from harness.errors import InputError
from harness.families import read_text
from harness.payload import Payload, finite, payload_of
from memos_flow.drafts import drafts, typed
from memos_flow.feedback import heard
from memos_flow.lessons import lessons
from memos_flow.library import Library
from memos_flow.merging import assigned, current_lines, merged, new_lines
from memos_flow.rendering import rendered
from memos_flow.reward import episodes
from memos_flow.schemas import (
    Checks,
    Episodes,
    Executions,
    Feedback,
    Guidance,
    Policies,
    Trajectories,
    Trials,
)
from memos_flow.schemas.vocabulary import CHANNELS, CHECK_KINDS, POLARITIES
from memos_flow.verdict import failures
from memos_flow.wording import Wording

#: Rows judged at once, to bound memory.
_ROWS_AT_ONCE = 50_000
_REMARK = {
    "lane_id": pl.Int64,
    "text": pl.String,
    "polarity": pl.String,
    "magnitude": pl.Float64,
    "channel": pl.String,
    "outcome": pl.String,
    "verifier_severity": pl.Float64,
    "told_r_task": pl.Float64,
}

Row = Mapping[str, Any]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file; InputError names line, field, what was found and expected."""
    return [
        _checked(f"{path}:{number}", line)
        for number, line in enumerate(read_text(path).split("\n"), start=1)
        if line.strip()
    ]


def judged(
    rows: Sequence[Row], settings: pl.DataFrame, library: Library, wording: Wording
) -> list[dict[str, Any]]:
    """One output row per input row, in their order. `settings`: one row of schema Variants."""
    parts = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
    return [row for part in parts for row in _judged(part, settings, library, wording)]


def _judged(
    rows: Sequence[Row], settings: pl.DataFrame, library: Library, wording: Wording
) -> list[dict[str, Any]]:
    """Each row is heard in a lane of its own, of which it is the only episode."""
    payloads = [payload_of(row.get("raw")) for row in rows]
    given = _given(rows, payloads, library)
    lanes = given.select("lane_id", observational=pl.lit(False)).lazy()
    rules = _now(lanes.join(settings.lazy(), how="cross")).lazy()

    unheard = Feedback.create_empty(lazy=True)
    remarks = _remarks(given).lazy()
    feedback = Feedback.cast(_now(heard(_no_verdicts(), remarks, unheard, rules, library))).lazy()
    episode = episodes(feedback, unheard, Trials.create_empty(lazy=True)).join(
        given.lazy().select("lane_id", "told_r_task"), on="lane_id", how="left"
    )
    told = Episodes.cast(
        episode.with_columns(r_task=pl.coalesce("told_r_task", "r_task")).drop("told_r_task")
    )
    failing = failures(Executions.create_empty(lazy=True), _checks(payloads).lazy())
    no_traces = Trajectories.create_empty(lazy=True)
    learned = _now(
        typed(lessons(feedback, told, failing, no_traces, rules, library, wording))
    ).lazy()

    no_tasks = pl.LazyFrame(schema=dict(_TASK))
    drafted = _now(drafts(learned, no_tasks, rules)).lazy()
    unknown = Policies.create_empty(lazy=True)
    effects = assigned(drafted, unknown, pl.LazyFrame(schema=_VALIDATION), rules, library).lazy()
    changed = _now(merged(drafted, effects, unknown, unknown, rules)).lazy()
    lines = new_lines(drafted, effects, Guidance.create_empty(lazy=True), rules, library)
    kept = _now(current_lines(lines, rules)).lazy()
    policies = rendered(changed, kept, library, wording)
    return _answers(rows, given, feedback, learned, policies, kept, library)


_TASK: Final[Mapping[str, Any]] = {
    "lane_id": pl.Int64,
    "episode_step": pl.Int32,
    "family": pl.String,
    "task": pl.String,
    "query_text_id": pl.Int64,
    "file_names": pl.List(pl.String),
    "domain": pl.String,
    "tool": pl.String,
}
_VALIDATION: Final = {"lane_id": pl.Int64, "lesson_id": pl.Int64, "policy_id": pl.Int64}


def _given(rows: Sequence[Row], payloads: Sequence[Payload], library: Library) -> pl.DataFrame:
    """The rows as columns, with what their payload said and the text as `text_id`."""
    pairs = list(zip(rows, payloads, strict=True))
    columns = {
        "lane_id": range(len(rows)),
        "text": [_text(row, payload) for row, payload in pairs],
        "polarity": [row.get("polarity") for row in rows],
        "magnitude": [finite(row.get("magnitude")) for row in rows],
        "channel": [row.get("channel") or "explicit" for row in rows],
        "outcome": [payload.outcome for payload in payloads],
        "verifier_severity": [payload.severity for payload in payloads],
        "told_r_task": [finite(row.get("r_task")) for row in rows],
    }
    named = library.interned(pl.LazyFrame(columns, schema=_REMARK), "text")
    return _now(named.rename({"text_text_id": "text_id"}))


def _text(row: Row, payload: Payload) -> str | None:
    """What was said, in the row and in its payload."""
    said = [text for text in (row.get("text"), payload.text) if text and text.strip()]
    return "\n".join(dict.fromkeys(said)) or None


def _remarks(given: pl.DataFrame) -> pl.DataFrame:
    """The rows as `feedback.heard` takes them. A verdict decides the polarity: nothing that failed
    is positive."""
    ruled = pl.col("outcome").is_in(["pass", "fail"])
    heard_aloud = ruled & (pl.col("channel") == "explicit")
    passed = pl.col("outcome") == "pass"
    return given.select(
        "lane_id",
        "channel",
        "text_id",
        "outcome",
        "verifier_severity",
        step=pl.lit(0, pl.Int32),
        episode_step=pl.lit(0, pl.Int32),
        order=pl.lit(0, pl.Int32),
        source=pl.when(heard_aloud).then(pl.lit("verifier")).otherwise(pl.lit("user")),
        polarity=pl.when(passed)
        .then(pl.lit("positive"))
        .when(ruled)
        .then(pl.lit("negative"))
        .otherwise(pl.col("polarity").fill_null("neutral")),
        magnitude=pl.coalesce(
            "magnitude", pl.when(passed).then(1.0).otherwise("verifier_severity")
        ),
        execution_id=pl.when(heard_aloud).then("lane_id"),
    )


def _no_verdicts() -> pl.LazyFrame:
    """No verifier of ours ran: what one said is in the rows."""
    return pl.LazyFrame(
        schema={
            "lane_id": pl.Int64,
            "step": pl.Int32,
            "execution_id": pl.Int64,
            "outcome": pl.String,
            "verifier_severity": pl.Float64,
        }
    )


def _checks(payloads: Sequence[Payload]) -> dy.DataFrame[Checks]:
    """The structured checks inside the payloads, under the number of their row."""
    columns = Checks.create_empty().schema
    rows = [
        _check(number, index, check)
        for number, payload in enumerate(payloads)
        for index, check in enumerate(payload.checks)
    ]
    return Checks.cast(pl.DataFrame(rows, schema=dict(columns), strict=False))


def _check(number: int, index: int, check: Mapping[str, Any]) -> dict[str, Any]:
    name = str(check.get("name") or f"check {index + 1}")
    passed = bool(check.get("passed"))
    kind = check.get("kind") if check.get("kind") in CHECK_KINDS else "other"
    told = {key: check.get(key) for key in ("field", "expected", "actual", "message")}
    return {
        "execution_id": number,
        "check_index": index,
        "name": name,
        "check_key": name,
        "passed": passed,
        "kind": None if passed else kind,
        **{key: None if value is None else str(value) for key, value in told.items()},
    }


def _answers(
    rows: Sequence[Row],
    given: pl.DataFrame,
    feedback: pl.LazyFrame,
    learned: pl.LazyFrame,
    policies: pl.LazyFrame,
    lines: pl.LazyFrame,
    library: Library,
) -> list[dict[str, Any]]:
    """The output rows of section 7."""
    counts = pl.col("dropped").is_null()
    gated = (
        learned.sort("lane_id", "lesson_id")
        .group_by("lane_id", maintain_order=True)
        .agg(
            pl.col("significant").any(),
            pl.col("salience").max(),
            actionable=(
                pl.col("actionable") & ~pl.col("dropped").is_in(_REFUSED).fill_null(False)
            ).any(),
            reason=pl.when(~counts.any()).then(pl.col("dropped").first()),
        )
    )
    told = (
        given.lazy()
        .select("lane_id", "text_id")
        .join(feedback.select("lane_id", "outcome", "verifier_severity"), on="lane_id", how="left")
        .join(gated, on="lane_id", how="left")
        .join(_shapes(given, library), on="text_id", how="left")
        .join(_experiences(policies, lines, library), on="lane_id", how="left")
        .sort("lane_id")
        .select(
            pl.col("shape").cast(pl.String).fill_null("unknown"),
            pl.col("classifier_confidence").fill_null(0.0),
            actionable=pl.col("actionable").fill_null(False),
            significant=pl.col("significant").fill_null(False),
            verifier_severity=pl.col("verifier_severity").fill_null(0.0),
            salience=pl.col("salience").fill_null(0.0),
            outcome=pl.col("outcome").cast(pl.String),
            reason=pl.col("reason").cast(pl.String),
            experiences=pl.col("experiences").fill_null([]),
        )
    )
    return [
        {"id": row.get("id"), **answer}
        for row, answer in zip(rows, _now(told).iter_rows(named=True), strict=True)
    ]


#: Reasons for which nothing in a text may be acted on.
_REFUSED = ("task-boundary-phrase", "attack", "retracted")


def _shapes(given: pl.DataFrame, library: Library) -> pl.LazyFrame:
    said = library.features(given.lazy().select("text_id"))
    return said.select("text_id", "shape", "classifier_confidence")


def _experiences(policies: pl.LazyFrame, lines: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """`lane_id`, `experiences`: what the row would become, with its guidance lines."""
    guidance = (
        library.worded(lines.sort("lane_id", "policy_id", "line"), "text_id", "text")
        .group_by("lane_id", "policy_id", maintain_order=True)
        .agg(guidance=pl.struct(pl.col("kind").cast(pl.String), "text"))
    )
    return (
        library.worded(policies, "title_text_id", "title")
        .join(guidance, on=["lane_id", "policy_id"], how="left")
        .sort("lane_id", "policy_id")
        .group_by("lane_id", maintain_order=True)
        .agg(
            experiences=pl.struct(
                pl.col("experience_type").cast(pl.String),
                pl.col("evidence_polarity").cast(pl.String),
                "skill_eligible",
                pl.col("status").cast(pl.String),
                "title",
                "guidance",
            )
        )
    )


def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")


def _checked(place: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(place, "not JSON", found=line[:60], expected=error.msg) from error
    if not isinstance(row, dict):
        raise InputError(place, "not an object", found=line[:60], expected="an object with an id")
    if row.get("id") is None:
        raise InputError(place, "missing", field="id", expected="a text or a number")
    _one_of(place, row, "polarity", POLARITIES)
    _one_of(place, row, "channel", CHANNELS)
    _within(place, row, "magnitude", 0, 1)
    _within(place, row, "r_task", -1, 1)
    if not isinstance(row.get("text"), str | None):
        raise InputError(place, "not a text", field="text", found=row["text"])
    return row


def _one_of(place: str, row: Row, name: str, choices: Sequence[str]) -> None:
    if row.get(name) not in (None, *choices):
        raise InputError(
            place, "not understood", field=name, found=row[name], expected=f"one of {[*choices]}"
        )


def _within(place: str, row: Row, name: str, low: int, high: int) -> None:
    value = row.get(name)
    number = finite(value)
    if value is not None and (number is None or not low <= number <= high):
        raise InputError(
            place, "out of range", field=name, found=value, expected=f"{low} to {high}, or null"
        )
