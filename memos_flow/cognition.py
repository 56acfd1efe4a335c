"""Environment cognition: what several experiences say about an environment (section 4.7).

Facts about the environment, not steps to do: failures contribute as much as successes.
"""

import dataframely as dy
import polars as pl

from memos_flow.library import Library
from memos_flow.schemas import Policies, WorldModels
from memos_flow.schemas.vocabulary import LIFECYCLE_STATUSES, STEP_SPAN
from memos_flow.wording import Wording, filled, sentence

#: The domain key: experiences of one key may form a cognition; untagged ones never do.
_KEY = ["lane_id", "domain", "tool"]
_EXPERIENCE = ["lane_id", "policy_id"]
_PARTS = ["facts", "behaviours", "constraints"]


def cognition(
    policies: dy.LazyFrame[Policies],
    changed: dy.LazyFrame[Policies],
    known: dy.LazyFrame[WorldModels],
    starts: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> dy.LazyFrame[WorldModels]:
    """New versions of the cognitions whose sources changed in this step: `changed` of `policies`.

    From the active experiences of a domain key with enough confidence, of any polarity: those
    similar enough to their centroid (strict), or, where fewer than `cognition.min_experiences` are,
    the whole bucket (loose, its confidence dampened). At least one must state a fact or constraint.
    A domain key has one cognition, which newer versions replace.
    """
    touched = policies.join(changed, on=["lane_id", "domain"], how="semi")
    bucket = _sources(touched, settings, library, wording)
    similar = library.centred(bucket, _KEY, "lesson_text_id", "similarity")
    close = pl.col("similarity") >= pl.col("cognition_cluster_similarity")
    strict = close.sum().over(_KEY) >= pl.col("cognition_min_experiences")
    grouped = similar.with_columns(loose=~strict).filter(pl.col("loose") | close)
    models = (
        grouped.sort(*_KEY, "policy_id")
        .group_by(_KEY, maintain_order=True)
        .agg(
            *(
                pl.struct(text_id="statement_text_id", policy_id="policy_id")
                .filter(pl.col("part") == part)
                .alias(part)
                for part in _PARTS
            ),
            pl.col("policy_id").alias("source_policy_ids"),
            pl.col("loose").first(),
            cohesion=pl.col("similarity").mean().round(6),
            mean_confidence=pl.col("confidence").mean().round(6),
            needed=pl.col("cognition_min_experiences").first(),
            damping=pl.col("cognition_loose_damping").first(),
        )
        .filter(
            (pl.col("source_policy_ids").list.len() >= pl.col("needed"))
            & (pl.col("facts").list.len() + pl.col("constraints").list.len() > 0)
        )
    )
    return WorldModels.cast(_versions(_worded(models, library, wording), known, starts))


def _sources(
    policies: pl.LazyFrame,
    settings: pl.LazyFrame,
    library: Library,
    wording: Wording,
) -> pl.LazyFrame:
    """The experiences that may take part, each with its statement and what `part` that is.

    A constraint says what must or must not be; a fact how things are; a behaviour what happens when
    something is done. Null: a step to do, which is part of no cognition's text.
    """
    rules = settings.filter("cognition_enabled").select(
        "lane_id",
        "cognition_min_experiences",
        "cognition_min_confidence",
        "cognition_cluster_similarity",
        "cognition_loose_damping",
    )
    # What a check asks of its field is a fact about the environment, whatever was wrong with it.
    asked = filled(sentence(wording.environment, pl.col("check_kind")), field=pl.col("field"))
    taking_part = (
        policies.filter((pl.col("status") == "active") & pl.col("domain").is_not_null())
        .join(rules, on="lane_id", how="inner")
        .filter(pl.col("confidence") >= pl.col("cognition_min_confidence"))
        .select(
            *_EXPERIENCE,
            "domain",
            "lesson_text_id",
            "experience_type",
            "check_kind",
            "confidence",
            "cognition_min_experiences",
            "cognition_cluster_similarity",
            "cognition_loose_damping",
            tool=pl.col("tool").fill_null(""),
            asked=asked,
        )
    )
    of_people = taking_part.filter(pl.col("check_kind").is_null())
    said = library.features(of_people.select(text_id="lesson_text_id")).select(
        "shape",
        "states_fact",
        "tells_how",
        "expects",
        "directive_sign",
        lesson_text_id="text_id",
    )
    # What must be so is a constraint; what somebody must not do is an order.
    requires = pl.col("expects") & (pl.col("directive_sign") != "do_not").fill_null(True)
    part = (
        pl.when(pl.col("asked_text_id").is_not_null())
        .then(pl.lit("constraints"))
        .when(pl.col("check_kind").is_not_null())
        .then(None)
        .when((pl.col("experience_type") == "success_pattern") & pl.col("tells_how"))
        .then(pl.lit("behaviours"))
        .when(pl.col("shape").is_in(["constraint", "correction"]) & requires)
        .then(pl.lit("constraints"))
        # What was wrong with an attempt is no fact about its environment.
        .when(pl.col("states_fact") & (pl.col("shape") != "negative"))
        .then(pl.lit("facts"))
    )
    return (
        library.interned(taking_part, "asked")
        .join(said, on="lesson_text_id", how="left")
        .with_columns(part=part, statement_text_id=pl.coalesce("asked_text_id", "lesson_text_id"))
    )


def _worded(models: pl.LazyFrame, library: Library, wording: Wording) -> pl.LazyFrame:
    """Add `title_text_id` and `text_id`: the statements under what they are, newest last, each once
    and no more than `wording.cognition_lines` per part."""
    key = [*_KEY]
    statements = pl.concat(
        [
            models.select(*key, pl.lit(part).alias("part"), statement=part)
            .explode("statement")
            .drop_nulls("statement")
            .unnest("statement")
            for part in _PARTS
        ]
    )
    heading = pl.col("part").replace_strict(dict(wording.cognition_line))
    bodies = (
        library.worded(statements, "text_id", "text")
        .unique([*key, "text"], keep="last", maintain_order=True)
        .with_columns(newest=pl.int_range(pl.len(), 0, -1).over(*key, "part"))
        .filter(pl.col("newest") <= wording.cognition_lines)
        .with_columns(line=filled(heading, lesson=pl.col("text")))
        .group_by(key, maintain_order=True)
        .agg(body=pl.col("line").str.join("\n"))
    )
    titled = models.join(bodies, on=key, how="left").with_columns(
        title=filled(pl.lit(wording.cognition_title), domain=pl.col("domain"))
    )
    return library.interned(titled, "title", "body").rename({"body_text_id": "text_id"})


def _versions(
    models: pl.LazyFrame, known: dy.LazyFrame[WorldModels], starts: pl.LazyFrame
) -> pl.LazyFrame:
    before = known.select(
        "lane_id",
        "domain",
        pl.col("tool").fill_null(""),
        "world_model_id",
        "version",
        "created_step",
        known_text_id="text_id",
        known_ids="source_policy_ids",
        known_confidence="confidence",
    )
    damping = pl.when("loose").then("damping").otherwise(1.0)
    confidence = (pl.col("mean_confidence") * damping).clip(0, 1)
    position = pl.int_range(pl.len(), dtype=pl.Int64).over("lane_id")
    return (
        models.join(starts.select("lane_id", "step"), on="lane_id", how="inner")
        .join(before, on=_KEY, how="left")
        .filter(
            pl.col("known_text_id").is_null()
            | (pl.col("known_text_id") != pl.col("text_id"))
            | (pl.col("known_ids") != pl.col("source_policy_ids"))
            | (pl.col("known_confidence") != confidence)
        )
        .sort(_KEY)
        .with_columns(
            world_model_id=pl.coalesce(
                "world_model_id", pl.col("step").cast(pl.Int64) * STEP_SPAN + position
            ),
            version=pl.col("version").fill_null(0) + 1,
            created_step=pl.coalesce("created_step", "step"),
            updated_step="step",
            tool=pl.col("tool").replace("", None),
            status=pl.lit("active", pl.Enum(LIFECYCLE_STATUSES)),
            confidence=confidence,
        )
        .select(WorldModels.column_names())
    )
