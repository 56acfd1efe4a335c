"""What the simulation is made of: fault matrices, and what its agent understands."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl


def fault_table(matrices: Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]) -> pl.DataFrame:
    """`family`, `fault`, and the tasks that it breaks with the number of checks that fail."""
    rows = [
        {"family": family, "fault": fault, "task": task, "failing": len(checks)}
        for family, tasks in matrices.items()
        for task, faults in tasks.items()
        for fault, checks in faults.items()
    ]
    schema = {"family": pl.String, "fault": pl.String, "task": pl.String, "failing": pl.Int64}
    return (
        pl.DataFrame(rows, schema=schema)
        .group_by("family", "fault", maintain_order=True)
        .agg(
            tasks=pl.len(),
            breaks=pl.format("{} ({})", "task", "failing").str.join(", "),
        )
    )


def comprehension_text(found: Sequence[Mapping[str, Any]]) -> str:
    """One paragraph per family: how many lines were understood, and those that were not."""
    blocks = []
    for one in found:
        share = "undefined" if one["accuracy"] is None else f"{one['accuracy']:.3f}"
        counts = ", ".join(
            f"{name.replace('_', ' ')} {one[name]}"
            for name in ("right", "wrong_way", "wrong_step", "missed", "false_alarm")
        )
        wrong = [f"  {row['verdict']}: {row['text']}" for row in one["misunderstood"]]
        head = (
            f"{one['family']}: accuracy {share} over {one['lines']} lines, "
            f"{one['about_a_step']} of them about a step ({counts})"
        )
        blocks.append("\n".join([head, *wrong]))
    return "\n\n".join(blocks)
