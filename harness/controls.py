"""The lines of the control packets: what the fault matrix calls relevant, and what nothing does."""

import json
from typing import Final

import polars as pl

from harness.families import read_text
from harness.recording import Recording
from harness.resources import DATASETS
from memos_flow.library import Library
from memos_flow.schemas.vocabulary import PACKET_SECTIONS

_IRRELEVANT: Final = "irrelevant_lessons.jsonl"
_COLUMNS: Final = ["control", "family", "task", "order", "section", "text"]


def control_lines(recording: Recording, library: Library) -> pl.DataFrame:
    """`control` (oracle or irrelevant), `family`, `task` (null: of any), `order`, `section`,
    `text` of each line.

    Oracle: what people said about a fault, for every task that the same fault breaks. Irrelevant:
    lessons of other domains, from a file of the toolkit.
    """
    return pl.concat([_oracle(recording, library), _irrelevant()])


def _oracle(recording: Recording, library: Library) -> pl.DataFrame:
    spoken = recording.remark_faults.lazy().rename({"task": "spoken_of"})
    lessons = library.clauses(spoken.select("text_id")).filter("actionable")
    relevant = (
        spoken.join(
            recording.fault_matrix.lazy().select("family", "task", "fault").unique(),
            on=["family", "fault"],
            how="inner",
        )
        .join(lessons, on="text_id", how="inner")
        .select("family", "task", "clause_text_id", "directive_sign")
        .unique(["family", "task", "clause_text_id"])
        .sort("family", "task", "clause_text_id")
    )
    return (
        library.worded(relevant, "clause_text_id", "text")
        .select(
            pl.lit("oracle").alias("control"),
            "family",
            "task",
            pl.int_range(pl.len(), dtype=pl.Int32).over("family", "task").alias("order"),
            # As the memory words them: what tells what to do, and what went wrong.
            pl.when(pl.col("directive_sign") == "do")
            .then(pl.lit("do"))
            .otherwise(pl.lit("avoid"))
            .cast(pl.Enum(PACKET_SECTIONS))
            .alias("section"),
            "text",
        )
        .collect(engine="in-memory")
    )


def _irrelevant() -> pl.DataFrame:
    lines = read_text(DATASETS / _IRRELEVANT).splitlines()
    return (
        pl.DataFrame([json.loads(line) for line in lines if line.strip()])
        .with_row_index("order")
        .select(
            pl.lit("irrelevant").alias("control"),
            pl.lit(None, pl.String).alias("family"),
            pl.lit(None, pl.String).alias("task"),
            pl.col("order").cast(pl.Int32),
            pl.col("section").cast(pl.Enum(PACKET_SECTIONS)),
            "text",
        )
        .select(_COLUMNS)
    )
