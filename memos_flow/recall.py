"""Recall: what the memory offers at the start of a task (section 4.8).

Every candidate is scored and ranked within its channel and leaves with a fate. Each channel is a
list of candidates of one shape; the score, the floor and the cut are the same for all.
"""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import PacketItems, Policies
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


def recalled(
    policies: dy.LazyFrame[Policies],
    starts: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
) -> dy.LazyFrame[PacketItems]:
    """Every candidate for the packets of this step, ranked, with its fate so far.

    `starts`: `lane_id`, `step`, `query_text_id` (null: nothing is similar). The fate `injected`
    still has to pass the packet's budget.
    """
    asked = starts.select("lane_id", "step", "query_text_id").join(
        settings.filter(pl.col("recall_packet") != "none"), on="lane_id", how="inner"
    )
    candidates = _experiences(policies, asked)
    scored = _scored(library.compared(candidates, "query_text_id", "text_id", "query_similarity"))
    return PacketItems.cast(_fated(scored).sort("lane_id", "step", "channel", "rank"))


def _experiences(policies: dy.LazyFrame[Policies], asked: pl.LazyFrame) -> pl.LazyFrame:
    experience_type = pl.col("experience_type")
    too_unsure = (pl.col("status") == "candidate") & ~(
        pl.col("recall_candidates")
        & (pl.col("confidence") >= pl.col("recall_candidate_confidence"))
    )
    switched_off = (experience_type == "failure_avoidance") & ~pl.col("recall_avoidance")
    return asked.join(
        policies.filter(pl.col("status") != "archived"), on="lane_id", how="inner"
    ).select(
        "lane_id",
        "step",
        "query_text_id",
        *(f"recall_weight_{name}" for name in _WEIGHTS),
        "recall_min_similarity",
        "recall_floor_ratio",
        "recall_half_life_days",
        "recall_support_saturation",
        "clock_days_per_step",
        "created_step",
        "updated_step",
        "experience_type",
        "text_id",
        "confidence",
        channel=pl.lit("experience", pl.Enum(RECALL_CHANNELS)),
        item_id="policy_id",
        section=sentence(SECTION_OF_TYPE, experience_type).cast(pl.Enum(PACKET_SECTIONS)),
        salience_or_gain=pl.max_horizontal("salience", "gain").clip(0, 1),
        times="support",
        top="recall_experiences",
        barred=pl.when(switched_off)
        .then(pl.lit("type-switched-off"))
        .when(too_unsure)
        .then(pl.lit("low-confidence")),
    )


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
        pl.col("query_similarity").fill_null(0.0).clip(-1, 1),
        recency=0.5 ** (age / pl.col("recall_half_life_days")),
        support=support.clip(0, 1),
    ).with_columns(
        # Rounded as similarities are: the last bits of a sum decide no rank.
        score=pl.sum_horizontal(
            pl.col(f"recall_weight_{name}") * part for name, part in parts.items()
        ).round(9)
    )


def _fated(scored: pl.LazyFrame) -> pl.LazyFrame:
    """Rank within the channel; drop what is barred, below the floor or beyond the channel's top."""
    channel = ["lane_id", "step", "channel"]
    barred = pl.col("barred").is_not_null()
    best = pl.col("score").filter(~barred).max().over(channel)
    low = (pl.col("score") < pl.col("recall_floor_ratio") * best) | (
        pl.col("query_similarity") < pl.col("recall_min_similarity")
    )
    place = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(channel)
    return (
        scored.with_columns(
            fate=pl.when(barred)
            .then("barred")
            .when(low)
            .then(pl.lit("below-floor"))
            .otherwise(pl.lit("injected"))
        )
        # Candidates that are still in come first, so that their rank is their place in the cut.
        .sort(
            *channel,
            pl.col("fate") == "injected",
            "score",
            "item_id",
            descending=[False, False, False, True, True, False],
        )
        .with_columns(rank=place)
        .with_columns(
            fate=pl.when((pl.col("fate") == "injected") & (pl.col("rank") > pl.col("top")))
            .then(pl.lit("top-k"))
            .otherwise("fate")
            .cast(pl.Enum(ITEM_FATES)),
            experience_type=pl.col("experience_type").cast(pl.Enum(EXPERIENCE_TYPES)),
        )
    )
