"""Frames written by hand: what a row leaves out gets a plain value of its type."""

from collections.abc import Mapping, Sequence
from typing import Any

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import STEP_SPAN

#: Plain values by column name, where the type alone does not make a legal row.
_PLAIN: Mapping[str, Any] = {
    "agent": "agent",
    "arm_id": "arm",
    "channel": "explicit",
    "check_key": "check",
    "directive_sign": "do",
    "domain": None,
    "evidence_polarity": "negative",
    "experience_type": "repair_instruction",
    "family": "family",
    "name": "check",
    "outcome": "none",
    "outcome_source": "none",
    "polarity": "neutral",
    "source": "user",
    "source_episode_ids": [0],
    "status": "active",
    "support": 1,
    "task": "task",
    "version": 1,
}


def frame(schema: type[dy.Schema], rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows with every column of the schema, not validated: a test may want an illegal row."""
    dtypes = schema.create_empty().schema
    nullable = {name for name, column in schema.columns().items() if column.nullable}
    filled = [
        {name: _value(name, dtype, row, name in nullable) for name, dtype in dtypes.items()}
        for row in rows
    ]
    unknown = {name for row in rows for name in row} - set(dtypes)
    assert not unknown, f"{schema.__name__} has no {sorted(unknown)}"
    return pl.DataFrame(filled, schema=dict(dtypes))


def _value(name: str, dtype: pl.DataType, row: Mapping[str, Any], nullable: bool) -> Any:
    if name in row:
        return row[name]
    if name == "policy_id" and "created_step" in row:
        return row["created_step"] * STEP_SPAN
    if nullable:
        return None
    if name in _PLAIN:
        return _PLAIN[name]
    if dtype.is_nested():
        return []
    return {pl.Boolean: False, pl.String: "text"}.get(dtype.base_type(), 0)
