"""What `run` and `report` show: every frame once, as text and as JSON from the same numbers."""

from typing import Any

import polars as pl

from reports import baselines, funnel, learning, retrieval
from reports.acceptance import acceptance
from reports.red_lines import red_lines
from reports.rendering import aligned
from reports.summary import Tables, arms_summary

_OBSERVATIONAL = (
    "Recorded trials: packets could not change their outcomes, so this says what the memory would "
    "have offered, not whether it would have helped."
)
_SIMULATED = "Simulated agent: outcomes are those of a simulation, not of a language model."


def frames(tables: Tables, recall_rate: float) -> dict[str, pl.DataFrame]:
    """The frames of the report, in the order in which they are shown."""
    relevance = retrieval.relevance(tables)
    return {
        "Trials": arms_summary(tables).drop("errors"),
        "Pass rate by task index": learning.learning_curve(tables),
        "Learning": learning.learning_metrics(tables),
        "Against no memory, paired": learning.paired_differences(tables),
        "Red lines": red_lines(tables),
        "Skills used, and whether it helped": learning.skill_usage(tables),
        "Acceptance": acceptance_table(acceptance(tables, recall_rate)),
        "Funnel": _wide(funnel.funnel(tables), "stage"),
        "Why not": funnel.reasons(tables),
        "Experiences by type": funnel.kinds(tables),
        "Preventable failures": retrieval.preventable_failures(tables, relevance),
        "Ranking of relevant experiences": retrieval.ranking_metrics(relevance),
        "Preventable failures found by other rankings of the same experiences": (
            baselines.preventable_recall(tables)
        ),
        "Containment (lanes whose packet of `step` held something learned at `learned_at`)": (
            retrieval.containment(tables)
        ),
        "Packets": retrieval.packet_facts(tables),
    }


def as_text(tables: Tables, recall_rate: float) -> str:
    """The report for a terminal."""
    shown = frames(tables, recall_rate).items()
    parts = [f"{title}\n{aligned(frame)}" for title, frame in shown if not frame.is_empty()]
    return "\n\n".join([*caveats(tables), *parts]) + "\n"


def as_data(tables: Tables, recall_rate: float) -> dict[str, Any]:
    """The same for machines."""
    shown = {title: frame.to_dicts() for title, frame in frames(tables, recall_rate).items()}
    return {"caveats": caveats(tables), **shown}


def caveats(tables: Tables) -> list[str]:
    """What must be said beside every number of this run."""
    arms = tables["arms"]
    said = {_OBSERVATIONAL: arms["observational"].any(), _SIMULATED: arms["simulated"].any()}
    return [text for text, holds in said.items() if holds]


def acceptance_table(entries: list[dict[str, Any]]) -> pl.DataFrame:
    """`variant`, `id`, `verdict`, `k of n`, `criterion`, in the report's order."""
    return pl.DataFrame(
        {
            "variant": [entry["variant"] for entry in entries],
            "id": [entry["id"] for entry in entries],
            "verdict": [entry["verdict"] for entry in entries],
            "k of n": [f"{entry['met']} of {entry['opportunities']}" for entry in entries],
            "criterion": [
                f"{entry['statement']} ({entry['why']})" if entry["why"] else entry["statement"]
                for entry in entries
            ],
        },
        schema=dict.fromkeys(["variant", "id", "verdict", "k of n", "criterion"], pl.String),
    )


def _wide(counts: pl.DataFrame, name: str) -> pl.DataFrame:
    """One column per variant."""
    return counts.pivot(on="variant_id", index=name, values="number", maintain_order=True)
