"""Simulated trials, recorded: what a run without memory did becomes a recording to replay."""

from dataclasses import replace

import polars as pl

from harness.configuration import compose_config, variants_frame
from harness.loop import Plan, run
from harness.recording import Recording
from harness.runs import mind_of
from harness.sources import load_source
from harness.store import Store
from memos_flow.schemas import Checks, Executions, Trajectories

_ARM = "recorded"
_UNTIL_SHOWN = ["family", "task", "fault"]


def recorded(family: str, uri: str) -> Recording:
    """The trials of the scripted agent without memory, one per task of an embedded family, with
    what people said of them. `uri`: where the run may write its tables."""
    config = compose_config([f"family={family}", "memory=[off]"])
    source = load_source(config)
    store = Store.open(uri)
    run(
        Plan(source, variants_frame(config), 1, "family", "sequential", False),
        mind_of(config),
        store,
    )
    simulated = source.recording
    shown = store.read("shown_faults").join(
        store.read("executions").select("execution_id", "family", "task"), on="execution_id"
    )
    said = simulated.feedback.join(shown, on=_UNTIL_SHOWN, how="semi", maintain_order="left")
    always = simulated.feedback.filter(pl.col("fault").is_null())
    return replace(
        simulated,
        arms=simulated.arms.with_columns(
            arm_id=pl.lit(_ARM), simulated=pl.lit(False), observational=pl.lit(True)
        ),
        executions=Executions.validate(
            store.read("executions").with_columns(arm_id=pl.lit(_ARM)), cast=True
        ),
        checks=Checks.validate(store.read("checks")),
        trajectories=Trajectories.validate(store.read("trajectories")),
        texts=pl.concat([simulated.texts, store.read("texts")]).unique(
            "text_id", maintain_order=True
        ),
        feedback=pl.concat([always, said.with_columns(fault=pl.lit(None, pl.String))]),
    )
