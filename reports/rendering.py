"""Rendering: frames as aligned text or Markdown. What is shown is the frame that is the JSON."""

from collections.abc import Sequence
from typing import Any

import polars as pl


def aligned(frame: pl.DataFrame) -> str:
    """The frame as a plain text table: numbers to the right, nothing cut, null as a dash."""
    columns = frame.columns
    rows = [[_shown(value) for value in row] for row in frame.iter_rows()]
    widths = [
        max(len(cell) for cell in [name, *(row[index] for row in rows)])
        for index, name in enumerate(columns)
    ]
    numeric = [dtype.is_numeric() for dtype in frame.dtypes]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(columns), *(line(row) for row in rows)])


def markdown(frame: pl.DataFrame) -> str:
    """The frame as a Markdown table."""
    lines = [frame.columns, ["---:" if dtype.is_numeric() else "---" for dtype in frame.dtypes]]
    lines += [
        [_shown(value).replace("|", "\\|").replace("\n", " ") for value in row]
        for row in frame.iter_rows()
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
