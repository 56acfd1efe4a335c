"""What the benchmark runs on: recorded trials, many settings, and memories grown large."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import dataframely as dy
import numpy as np
import polars as pl

from harness.ablation import ablated
from harness.configuration import compose_config, variants_frame
from harness.embedders import Embedder
from harness.loop import Plan, run
from harness.recording import Recording
from harness.replay import Replay
from harness.runs import mind_of
from harness.sources import Source, load_source
from harness.store import Store
from memos_flow.schemas import TABLES, Checks, Executions, Trajectories
from memos_flow.schemas.vocabulary import STEP_SPAN
from memos_flow.texts import texts_frame

#: The step in which a memory grows.
GROWN_STEP: Final = 1
_ARM: Final = "recorded"
_FAULT: Final = ["family", "task", "fault"]
_FAMILY: Final = "sec13f"
#: Ids of grown experiences begin here: those of the step itself are fewer.
_FIRST_ID: Final = 1_000
_DOMAINS: Final = 40
_SEED: Final = 7
#: Words that make a sentence, and words that make it another one.
_WORDS: Final = 4
_EMBEDDED_AT_ONCE: Final = 20_000


def drawn(lanes: int) -> pl.DataFrame:
    """As many settings, of the axes of ablation=bench; those drawn twice count once."""
    return ablated(compose_config(["ablation=bench", f"samples={lanes}"]))[0]


def recorded(folder: Path) -> Recording:
    """The trials of the scripted agent without memory, one per task of a family, as a recording,
    with what people said of them. `folder`: where its run may write."""
    config = compose_config([f"family={_FAMILY}", "memory=[off]"])
    source = load_source(config)
    store = Store.open(str(folder / "recorded"))
    simulation = Plan(source, variants_frame(config), 1, "family", "sequential", False)
    run(simulation, mind_of(config), store)
    simulated, executions = source.recording, store.read("executions")
    shown = store.read("shown_faults").join(
        executions.select("execution_id", "family", "task"), on="execution_id"
    )
    heard = simulated.feedback.join(shown, on=_FAULT, how="semi", maintain_order="left")
    always = simulated.feedback.filter(pl.col("fault").is_null())
    return replace(
        simulated,
        arms=simulated.arms.with_columns(
            arm_id=pl.lit(_ARM), simulated=pl.lit(False), observational=pl.lit(True)
        ),
        executions=Executions.validate(executions.with_columns(arm_id=pl.lit(_ARM)), cast=True),
        checks=Checks.validate(store.read("checks")),
        trajectories=Trajectories.validate(store.read("trajectories")),
        texts=pl.concat([simulated.texts, store.read("texts")]).unique("text_id"),
        feedback=pl.concat([always, heard.with_columns(fault=pl.lit(None, pl.String))]),
    )


def plan_of(recording: Recording, variants: pl.DataFrame, indexes: Path) -> Plan:
    """One replay of the recording per setting."""
    source = Source(recording, lambda lanes, itinerary, mind: Replay(recording, lanes, itinerary))
    return Plan(source, variants, 1, "family", "sequential", False, indexes=indexes)


def with_many(recording: Recording, uri: str, experiences: int) -> None:
    """A run that stopped after `GROWN_STEP`, in whose memory there are `experiences` more: of the
    checks of as many fields, in `_DOMAINS` domains, each in words of its own."""
    mind = mind_of(compose_config([]))
    plan = plan_of(recording, variants_frame(compose_config([])), Path(uri) / "indexes")

    class Growing(Store):
        def commit(
            self, tables: Mapping[str, pl.DataFrame], *, shard: int, step: int, lanes: int
        ) -> None:
            if step == GROWN_STEP:
                tables = _grown(tables, recording.texts, mind.embedder, experiences)
            super().commit(tables, shard=shard, step=step, lanes=lanes)
            if step == GROWN_STEP:
                raise _EnoughError

    try:
        run(plan, mind, Growing.open(uri))
    except _EnoughError:
        return


class _EnoughError(Exception):
    """The run has come as far as it should."""


def _grown(
    tables: Mapping[str, pl.DataFrame], corpus: pl.DataFrame, embedder: Embedder, count: int
) -> dict[str, pl.DataFrame]:
    """The tables of a step with `count` more experiences, their lines, texts and vectors."""
    texts = texts_frame(_sentences(corpus, count))
    count = texts.height
    # Half of them of the step before, so that ids of a step suffice.
    number = pl.int_range(count, dtype=pl.Int64)
    created = (number % 2) * GROWN_STEP
    one = tables["policies"].head(1).drop("text_id", "lesson_text_id", "policy_id")
    policies = one.join(texts.select("text_id"), how="cross").with_columns(
        lesson_text_id="text_id",
        policy_id=created * STEP_SPAN + _FIRST_ID + number // 2,
        created_step=created.cast(pl.Int32),
        updated_step=pl.lit(GROWN_STEP, pl.Int32),
        experience_type=pl.lit("repair_instruction"),
        evidence_polarity=pl.lit("negative"),
        skill_eligible=pl.lit(False),
        status=pl.lit("active"),
        support=pl.lit(1, pl.Int32),
        source_feedback_ids=pl.concat_list(number),
        source_trace_ids=pl.lit([], pl.List(pl.Int64)),
        source_episode_ids=pl.concat_list(pl.lit(0, pl.Int32)),
        check_kind=pl.lit("value_mismatch"),
        check_key=pl.concat_str(pl.lit("check "), number),
        field=pl.concat_str(pl.lit("rows[].field_"), number),
        domain=pl.concat_str(pl.lit("domain "), number % _DOMAINS),
    )
    guidance = policies.select(
        "lane_id",
        "policy_id",
        "text_id",
        kind=pl.lit("check"),
        step="created_step",
        feedback_id=pl.col("source_feedback_ids").list.first(),
    )
    vectors = np.concatenate(
        [embedder.embed(part["text"].to_list()) for part in texts.iter_slices(_EMBEDDED_AT_ONCE)]
    )
    embeddings = pl.DataFrame({"text_id": texts["text_id"], "vector": pl.Series(vectors)})
    more = {"policies": policies, "guidance": guidance, "texts": texts, "embeddings": embeddings}
    return {
        **tables,
        **{
            name: pl.concat([tables[name], _like(rows, TABLES[name])])
            for name, rows in more.items()
        },
    }


def _sentences(corpus: pl.DataFrame, count: int) -> list[str]:
    """What people and instructions say, sentence by sentence, each time about other things: words
    of the corpus, drawn with a seed."""
    said = corpus["text"].str.split(r"\n").explode().str.split(". ").explode().str.strip_chars()
    sentences = said.filter(said.str.count_matches(r"[A-Za-z]{2,}") >= _WORDS).unique().sort()
    words = corpus["text"].str.extract_all(r"[A-Za-z]{4,}").explode().drop_nulls().unique().sort()
    drawn = np.random.default_rng(_SEED).integers(len(words), size=(count, _WORDS))
    about = [words.gather(drawn[:, place]) for place in range(_WORDS)]
    rest = sentences.gather(np.arange(count) % len(sentences))
    return pl.select(pl.concat_str([rest, *about], separator=" ")).to_series().to_list()


def _like(rows: pl.DataFrame, schema: type[dy.Schema]) -> pl.DataFrame:
    columns = schema.create_empty().schema
    return rows.select(pl.col(name).cast(dtype) for name, dtype in columns.items())
