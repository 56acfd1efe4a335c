"""Recall: what the memory offers at the start of a task (section 4.8).

Every candidate is scored and ranked within its channel and leaves with a fate. Each channel is a
list of candidates of one shape; the score, the floor and the cut are the same for all.
"""

from dataclasses import dataclass

import dataframely as dy
import polars as pl

from memos_flow import lexical
from memos_flow.library import Library
from memos_flow.schemas import PacketItems, Policies, Skills, Traces, Trajectories, WorldModels
from memos_flow.schemas.vocabulary import (
    EXPERIENCE_TYPES,
    ITEM_FATES,
    PACKET_SECTIONS,
    RECALL_CHANNELS,
)
from memos_flow.wording import sentence

#: Where an experience stands in the packet. An avoidance is never worded as something that worked.
SECTION_OF_TYPE = {
    "success_pattern": "do",
    "repair_validated": "do",
    "preference": "do",
    "failure_avoidance": "avoid",
    "repair_instruction": "check",
}
_WEIGHTS = ["similarity", "salience", "confidence", "recency", "support"]
_CHANNEL = ["lane_id", "step", "channel"]
#: Shorter field names are parts of any word.
_SHORTEST_NAME = 4
_RULES = [
    *(f"recall_weight_{name}" for name in _WEIGHTS),
    "recall_similarity",
    "recall_ranker",
    "recall_min_similarity",
    "recall_floor_ratio",
    "recall_half_life_days",
    "recall_support_saturation",
    "recall_rrf_k",
    "recall_mmr_lambda",
    "recall_bm25_k1",
    "recall_bm25_b",
    "recall_provenance_dedupe",
    "clock_days_per_step",
]


@dataclass(frozen=True)
class Known:
    """What a lane's memory can offer: the current version of every row. `policies`: those worth
    comparing; `every_policy`: all, where those are fewer."""

    policies: dy.LazyFrame[Policies]
    skills: dy.LazyFrame[Skills]
    traces: dy.LazyFrame[Traces]
    trajectories: dy.LazyFrame[Trajectories]
    world_models: dy.LazyFrame[WorldModels]
    every_policy: dy.LazyFrame[Policies] | None = None


def recalled(
    known: Known, starts: pl.LazyFrame, settings: pl.LazyFrame, library: Library
) -> dy.LazyFrame[PacketItems]:
    """Every candidate for the packets of this step, ranked, with its fate so far.

    `starts`: `lane_id`, `step`, `query_text_id` (null: nothing is similar). The fate `injected`
    still has to pass the packet's budget. An experience that a recalled skill covers is dropped,
    unless it is newer: then only its lines after `after_step` are new.
    """
    asked = starts.select("lane_id", "step", "query_text_id").join(
        settings.filter(pl.col("recall_packet") != "none"), on="lane_id", how="inner"
    )
    candidates = pl.concat(
        [
            _skills(
                known.skills,
                known.policies if known.every_policy is None else known.every_policy,
                asked,
            ),
            _experiences(known.policies, asked),
            _traces(known.traces, known.trajectories, asked),
            _world_models(known.world_models, asked),
        ]
    )
    scored = _now(_ranked(_scored(_similar(candidates, library)), library)).lazy()
    skills = _fated(scored.filter(pl.col("channel") == "skill"), library)
    covered = _covered(skills, known.skills, settings)
    others = _fated(_deduplicated(scored.filter(pl.col("channel") != "skill"), covered), library)
    return PacketItems.cast(
        pl.concat([skills, others])
        .select(PacketItems.column_names())
        .sort("lane_id", "step", "channel", "rank")
    )


def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")


# The channels, all of one shape.


def _shaped(candidates: pl.LazyFrame, channel: str, **columns: pl.Expr | str) -> pl.LazyFrame:
    return candidates.select(
        "lane_id",
        "step",
        "query_text_id",
        *_RULES,
        "text_id",
        "recall_context_weight",
        "recall_field_bonus",
        channel=pl.lit(channel, pl.Enum(RECALL_CHANNELS)),
        after_step=pl.lit(None, pl.Int32),
        **{
            "context_text_id": pl.lit(None, pl.Int64),
            "field": pl.lit(None, pl.String),
            **columns,
        },
    )


def _skills(
    skills: dy.LazyFrame[Skills], policies: dy.LazyFrame[Policies], asked: pl.LazyFrame
) -> pl.LazyFrame:
    """A skill's context is that of its first member, whose id it has."""
    eta = (pl.col("passed") + 1) / (pl.col("tried") + 2)
    standing = skills.filter(pl.col("status") != "archived")
    of_first = policies.select("lane_id", "context_text_id", skill_id="policy_id").join(
        standing, on=["lane_id", "skill_id"], how="semi"
    )
    known = standing.join(of_first, on=["lane_id", "skill_id"], how="left")
    return _shaped(
        asked.join(known, on="lane_id", how="inner"),
        "skill",
        context_text_id="context_text_id",
        item_id="skill_id",
        created_step="created_step",
        updated_step="updated_step",
        experience_type=pl.lit(None, pl.Enum(EXPERIENCE_TYPES)),
        section=pl.lit("skills", pl.Enum(PACKET_SECTIONS)),
        salience_or_gain=eta,
        confidence=eta,
        times=pl.col("anchor_policy_ids").list.len().cast(pl.Int32),
        top="recall_skills",
        barred=pl.lit(None, pl.String),
    )


def _experiences(policies: dy.LazyFrame[Policies], asked: pl.LazyFrame) -> pl.LazyFrame:
    too_unsure = (pl.col("status") == "candidate") & ~(
        pl.col("recall_candidates")
        & (pl.col("confidence") >= pl.col("recall_candidate_confidence"))
    )
    switched_off = (pl.col("experience_type") == "failure_avoidance") & ~pl.col("recall_avoidance")
    return _shaped(
        asked.join(policies.filter(pl.col("status") != "archived"), on="lane_id", how="inner"),
        "experience",
        item_id="policy_id",
        created_step="created_step",
        updated_step="updated_step",
        experience_type=pl.col("experience_type").cast(pl.Enum(EXPERIENCE_TYPES)),
        section=sentence(SECTION_OF_TYPE, pl.col("experience_type")).cast(pl.Enum(PACKET_SECTIONS)),
        context_text_id="context_text_id",
        field="field",
        salience_or_gain=pl.max_horizontal("salience", "gain").clip(0, 1),
        confidence="confidence",
        times="support",
        top="recall_experiences",
        barred=pl.when(switched_off)
        .then(pl.lit("type-switched-off"))
        .when(too_unsure)
        .then(pl.lit("low-confidence")),
    )


def _traces(
    traces: dy.LazyFrame[Traces], trajectories: dy.LazyFrame[Trajectories], asked: pl.LazyFrame
) -> pl.LazyFrame:
    """What was done in earlier episodes that went well; one of several equal texts."""
    done = trajectories.select("execution_id", "position", text_id="action_text_id").drop_nulls(
        "text_id"
    )
    worked = (
        asked.join(traces.filter(pl.col("value") > 0), on="lane_id", how="inner")
        .join(done, on=["execution_id", "position"], how="inner")
        .sort("lane_id", "value", "trace_id", descending=[False, True, True])
        .unique(["lane_id", "text_id"], keep="first", maintain_order=True)
    )
    return _shaped(
        worked,
        "trace",
        item_id="trace_id",
        created_step="episode_step",
        updated_step="updated_step",
        experience_type=pl.lit(None, pl.Enum(EXPERIENCE_TYPES)),
        section=pl.lit("traces", pl.Enum(PACKET_SECTIONS)),
        salience_or_gain=pl.col("value").clip(0, 1),
        confidence=pl.lit(0.5),
        times=pl.lit(1, pl.Int32),
        top="recall_traces",
        barred=pl.lit(None, pl.String),
    )


def _world_models(models: dy.LazyFrame[WorldModels], asked: pl.LazyFrame) -> pl.LazyFrame:
    return _shaped(
        asked.join(models.filter(pl.col("status") != "archived"), on="lane_id", how="inner"),
        "world_model",
        item_id="world_model_id",
        created_step="created_step",
        updated_step="updated_step",
        experience_type=pl.lit(None, pl.Enum(EXPERIENCE_TYPES)),
        section=pl.lit("environment", pl.Enum(PACKET_SECTIONS)),
        salience_or_gain="confidence",
        confidence="confidence",
        times=pl.col("source_policy_ids").list.len().cast(pl.Int32),
        top="recall_world_models",
        barred=pl.lit(None, pl.String),
    )


# Score, rank, fate.


def _similar(candidates: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Add `query_similarity` as the variant measures it, and the two that it is made of.

    The vector similarity is that of the query with the candidate's text, and by
    `recall.context_weight` that with the query of the task it was learned in; a candidate whose
    field the query names is `recall.field_bonus` more similar, by whatever measure.
    """
    weight = pl.col("recall_context_weight")
    near, like = pl.col("text_similarity"), pl.col("context_similarity")
    vectors = (
        library.compared(
            library.compared(candidates, "query_text_id", "text_id", "text_similarity"),
            "query_text_id",
            "context_text_id",
            "context_similarity",
        )
        .with_columns(
            vector_similarity=((1 - weight) * near + weight * pl.coalesce(like, near))
            .round(6)
            .fill_null(0.0)
            .clip(-1, 1)
        )
        .drop("text_similarity", "context_similarity")
    )
    by_words = (pl.col("recall_similarity") != "vector") | (pl.col("recall_ranker") != "linear")
    # Words are counted only for the lanes that ask for them.
    worded = lexical.scored(vectors.filter(by_words), library.tokens)
    plain = vectors.filter(~by_words).with_columns(lexical_similarity=pl.lit(0.0))
    vector, words = pl.col("vector_similarity"), pl.col("lexical_similarity")
    measured = (
        pl.when(pl.col("recall_similarity") == "lexical")
        .then(words)
        .when(pl.col("recall_similarity") == "hybrid")
        .then((vector + words) / 2)
        .otherwise(vector)
    )
    bonus = pl.col("recall_field_bonus") * pl.col("named").fill_null(False).cast(pl.Float64)
    return _named(pl.concat([plain, worded]), library).with_columns(
        query_similarity=(measured + bonus).round(6).clip(-1, 1)
    )


def _named(candidates: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Add `named`: whether the query names the candidate's field, by its last name or its sheet, as
    a word of its own; Chinese has no words to tell apart."""
    pairs = candidates.select("query_text_id", "field").drop_nulls().unique()
    own_name = (
        pl.col("field")
        .str.replace_all("[]", "", literal=True)
        .str.replace(r"!.*$", "")
        .str.extract(r"([^.]+)$")
    )
    name = _in_words(own_name)
    chinese = name.str.contains(r"\p{Han}")
    long_enough = name.str.len_chars() >= pl.when(chinese).then(2).otherwise(_SHORTEST_NAME)
    sought = pl.when(chinese).then(name).otherwise(pl.concat_str(pl.lit(" "), name, pl.lit(" ")))
    query = pl.concat_str(pl.lit(" "), _in_words(pl.col("query")), pl.lit(" "))
    told = library.worded(pairs, "query_text_id", "query").with_columns(
        named=long_enough & query.str.contains(sought, literal=True)
    )
    return candidates.join(
        told.select("query_text_id", "field", "named"),
        on=["query_text_id", "field"],
        how="left",
        maintain_order="left",
    )


def _in_words(text: pl.Expr) -> pl.Expr:
    """Lower-case words and numbers, one space between them."""
    return text.str.to_lowercase().str.replace_all(r"[^\w]+", " ").str.strip_chars()


def _scored(candidates: pl.LazyFrame) -> pl.LazyFrame:
    """score = sum of weight * part; recency halves with every half-life, support saturates."""
    age = (pl.col("step") - pl.col("updated_step")) * pl.col("clock_days_per_step")
    support = (1 + pl.col("times")).log() / (1 + pl.col("recall_support_saturation")).log()
    parts = {
        "similarity": pl.col("query_similarity"),
        "salience": pl.col("salience_or_gain"),
        "confidence": pl.col("confidence"),
        "recency": pl.col("recency"),
        "support": pl.col("support"),
    }
    return candidates.with_columns(
        recency=0.5 ** (age / pl.col("recall_half_life_days")),
        support=support.clip(0, 1),
    ).with_columns(
        # Rounded as similarities are: the last bits of a sum decide no rank.
        score=pl.sum_horizontal(
            pl.col(f"recall_weight_{name}") * part for name, part in parts.items()
        ).round(9)
    )


def _ranked(scored: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Replace the score of `rrf_mmr` lanes: 1 / (k + vector rank) + 1 / (k + lexical rank) within
    the channel."""

    def place(similarity: str) -> pl.Expr:
        # What is barred takes no rank from what is not.
        order = pl.struct(pl.col("barred").is_not_null(), -pl.col(similarity), "item_id")
        return order.rank("ordinal").over(_CHANNEL) + pl.col("recall_rrf_k")

    fused = 1 / place("vector_similarity") + 1 / place("lexical_similarity")
    return scored.with_columns(
        score=pl.when(pl.col("recall_ranker") == "rrf_mmr").then(fused.round(9)).otherwise("score")
    )


def _fated(scored: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Rank within the channel; drop what is barred, below the floor or beyond the channel's top."""
    barred = pl.col("barred").is_not_null()
    best = pl.col("score").filter(~barred).max().over(_CHANNEL)
    low = (pl.col("score") < pl.col("recall_floor_ratio") * best) | (
        pl.col("query_similarity") < pl.col("recall_min_similarity")
    )
    standing = scored.with_columns(
        best=best,
        fate=pl.when(barred)
        .then("barred")
        .when(low)
        .then(pl.lit("below-floor"))
        .otherwise(pl.lit("injected")),
    )
    place = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(_CHANNEL)
    return (
        _diversified(standing, library)
        # Candidates that are still in come first, so that their rank is their place in the cut.
        .sort(
            *_CHANNEL,
            pl.col("fate") == "injected",
            "picked",
            "score",
            "item_id",
            descending=[False, False, False, True, False, True, False],
            nulls_last=True,
        )
        .with_columns(rank=place)
        .with_columns(
            fate=pl.when((pl.col("fate") == "injected") & (pl.col("rank") > pl.col("top")))
            .then(pl.lit("top-k"))
            .otherwise("fate")
            .cast(pl.Enum(ITEM_FATES)),
        )
    )


def _diversified(standing: pl.LazyFrame, library: Library) -> pl.LazyFrame:
    """Add `picked`: the order in which maximal marginal relevance takes the candidates of an
    `rrf_mmr` lane; null for what it does not take, and in other lanes.

    Each takes the highest lambda * score / best - (1 - lambda) * similarity to what is taken; one
    candidate per channel and turn, as many turns as the channel has places.
    """
    rows = _now(standing.with_columns(picked=pl.lit(None, pl.Int32)))
    pool = rows.filter((pl.col("recall_ranker") == "rrf_mmr") & (pl.col("fate") == "injected"))
    if pool.is_empty():
        return rows.lazy()
    key = [*_CHANNEL, "item_id"]
    relevance = pl.col("recall_mmr_lambda") * pl.col("score") / pl.col("best")
    redundancy = (1 - pl.col("recall_mmr_lambda")) * pl.col("closest")
    left = pool.with_columns(closest=pl.lit(0.0))
    taken: list[pl.DataFrame] = []
    for turn in range(int(pool["top"].max() or 0)):  # type: ignore[arg-type]
        chosen = (
            left.filter(pl.col("top") > turn)
            .with_columns(marginal=(relevance - redundancy).round(9))
            .sort(*_CHANNEL, "marginal", "item_id", descending=[False, False, False, True, False])
            .unique(_CHANNEL, keep="first", maintain_order=True)
        )
        if chosen.is_empty():
            break
        taken.append(chosen.select(*key, turn=pl.lit(turn, pl.Int32)))
        pairs = (
            left.join(chosen, on=key, how="anti")
            .lazy()
            .join(
                chosen.lazy().select(*_CHANNEL, chosen_text_id="text_id"), on=_CHANNEL, how="left"
            )
        )
        left = _now(
            library.compared(pairs, "text_id", "chosen_text_id", "near")
            .with_columns(closest=pl.max_horizontal("closest", pl.col("near").fill_null(0.0)))
            .drop("near", "chosen_text_id")
        )
    if not taken:
        return rows.lazy()
    picks = pl.concat(taken)
    return (
        rows.lazy().join(picks.lazy(), on=key, how="left").with_columns(picked="turn").drop("turn")
    )


# What a recalled skill covers.


def _covered(
    fated_skills: pl.LazyFrame, skills: dy.LazyFrame[Skills], settings: pl.LazyFrame
) -> pl.LazyFrame:
    """`lane_id`, `item_id`, `built_step`: the sources of the recalled skills, with the newest build
    that holds them."""
    recalled = fated_skills.filter(pl.col("fate") == "injected").select(
        "lane_id", skill_id="item_id"
    )
    return (
        skills.join(recalled, on=["lane_id", "skill_id"], how="semi")
        .join(
            settings.filter("recall_provenance_dedupe").select("lane_id"), on="lane_id", how="semi"
        )
        .select("lane_id", "built_step", item_id="source_policy_ids")
        .explode("item_id")
        .group_by("lane_id", "item_id")
        .agg(pl.col("built_step").max())
    )


def _deduplicated(candidates: pl.LazyFrame, covered: pl.LazyFrame) -> pl.LazyFrame:
    """An experience that the skill is at least as new as is barred; of a newer one only what came
    after the skill was built."""
    is_experience = pl.col("channel") == "experience"
    held = is_experience & pl.col("built_step").is_not_null()
    return (
        candidates.join(covered, on=["lane_id", "item_id"], how="left", maintain_order="left")
        .with_columns(
            barred=pl.when(held & (pl.col("built_step") >= pl.col("updated_step")))
            .then(pl.lit("covered-by-skill"))
            .otherwise("barred"),
            after_step=pl.when(held).then("built_step"),
        )
        .drop("built_step")
    )
