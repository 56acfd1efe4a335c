"""Decision repair: a better and a worse choice in the same context, as guidance (section 4.5)."""

import dataframely as dy
import polars as pl

from memos_flow.schemas import Feedback, Repairs, Trajectories
from memos_flow.schemas.vocabulary import GUIDANCE_KINDS, STEP_SPAN

_CONTEXT = ["lane_id", "context"]


def repairs(
    feedback: dy.LazyFrame[Feedback],
    trials: pl.LazyFrame,
    trajectories: dy.LazyFrame[Trajectories],
    valued: pl.LazyFrame,
    known: dy.LazyFrame[Repairs],
    policies: pl.LazyFrame,
    settings: pl.LazyFrame,
) -> dy.LazyFrame[Repairs]:
    """One repair per context that gave occasion in this step and is not cooling down.

    Occasion: negative or correcting feedback on an episode, or a burst of failures of one tool in
    this trial. The pair: of all traces of the context, the best and the worst whose action never
    occurs on the other side of zero, at least `repair.value_gap` apart unless a person spoke. It
    belongs to the experiences whose evidence holds the worse trace or its episode. `valued`: every
    trace of the lanes with its `action_text_id` and `context` (domain and tool).
    """
    rules = settings.filter("repair_enabled").select(
        "lane_id",
        "repair_burst_failures",
        "repair_burst_window",
        "repair_value_gap",
        "repair_cooldown_steps",
    )
    occasions = pl.concat([_blamed(feedback, valued), _bursts(trials, trajectories, valued, rules)])
    triggered = (
        occasions.sort(*_CONTEXT, "feedback_id", nulls_last=True)
        .group_by(_CONTEXT, maintain_order=True)
        .agg(pl.col("step").first(), pl.col("feedback_id").first(), pl.col("by_person").any())
        .join(rules, on="lane_id", how="inner")
    )
    last = known.group_by(_CONTEXT).agg(last_step=pl.col("step").max())
    ready = _now(
        triggered.join(last, on=_CONTEXT, how="left").filter(
            pl.col("last_step").is_null()
            | (pl.col("step") - pl.col("last_step") > pl.col("repair_cooldown_steps"))
        )
    ).lazy()
    in_question = valued.join(ready, on=_CONTEXT, how="semi")
    paired = _now(
        ready.join(_pairs(in_question), on=_CONTEXT, how="inner").filter(
            pl.col("by_person") | (pl.col("value_gap") >= pl.col("repair_value_gap"))
        )
    ).lazy()
    holders = _holders(paired, policies)
    position = pl.int_range(pl.len(), dtype=pl.Int64).over("lane_id")
    return Repairs.cast(
        paired.join(holders, on=_CONTEXT, how="inner")
        .sort(_CONTEXT)
        .with_columns(repair_id=pl.col("step").cast(pl.Int64) * STEP_SPAN + position)
        .select(Repairs.column_names())
    )


def _blamed(feedback: dy.LazyFrame[Feedback], valued: pl.LazyFrame) -> pl.LazyFrame:
    """Contexts of the episodes that negative feedback of this step speaks of."""
    contexts = valued.select("lane_id", "episode_step", "context").unique()
    return (
        feedback.filter(
            (pl.col("polarity") == "negative")
            & (pl.col("channel") == "explicit")
            & ~pl.col("duplicate")
            & pl.col("quarantine").is_null()
        )
        .join(contexts, on=["lane_id", "episode_step"], how="inner")
        .select(
            *_CONTEXT,
            "step",
            "feedback_id",
            by_person=pl.col("source") != "verifier",
        )
    )


def _bursts(
    trials: pl.LazyFrame,
    trajectories: dy.LazyFrame[Trajectories],
    valued: pl.LazyFrame,
    rules: pl.LazyFrame,
) -> pl.LazyFrame:
    """Contexts in which one tool failed `burst_failures` times within `burst_window` calls of this
    trial without a success between."""
    tool = ["lane_id", "step", "tool"]
    failed = pl.col("error_code").is_not_null()
    calls = (
        trials.select("lane_id", "step", "execution_id")
        .join(trajectories, on="execution_id", how="inner")
        .filter(pl.col("tool").is_not_null())
        .join(rules, on="lane_id", how="inner")
        .sort("lane_id", "step", "position")
        .with_columns(call=pl.int_range(pl.len()).over("lane_id", "step"))
        .with_columns(run=(~failed).cast(pl.Int32).cum_sum().over(tool))
        .filter(failed)
    )
    in_run = [*tool, "run"]
    nth = pl.int_range(pl.len()).over(in_run)
    numbered = calls.with_columns(nth=nth)
    earlier = numbered.select(*in_run, begun="call", nth="nth")
    bursts = (
        numbered.with_columns(nth=pl.col("nth") - pl.col("repair_burst_failures") + 1)
        .filter(pl.col("nth") >= 0)
        .join(earlier, on=[*in_run, "nth"], how="inner")
        .filter(pl.col("call") - pl.col("begun") < pl.col("repair_burst_window"))
        .select("lane_id", "step", "tool")
        .unique()
    )
    contexts = valued.select("lane_id", "tool", "context", step="episode_step").unique()
    return bursts.join(contexts, on=["lane_id", "step", "tool"], how="inner").select(
        *_CONTEXT,
        "step",
        feedback_id=pl.lit(None, pl.Int64),
        by_person=pl.lit(False),
    )


def _pairs(valued: pl.LazyFrame) -> pl.LazyFrame:
    """The best and the worst trace of each context, of actions that were only good or only bad."""
    action = [*_CONTEXT, "action_text_id"]
    sided = valued.with_columns(
        ever_good=(pl.col("value") > 0).any().over(action),
        ever_bad=(pl.col("value") < 0).any().over(action),
    )

    def extreme(side: pl.Expr, name: str, *, descending: bool) -> pl.LazyFrame:
        return (
            sided.filter(side)
            .sort(*_CONTEXT, "value", "trace_id", descending=[False, False, descending, True])
            .unique(_CONTEXT, keep="first", maintain_order=True)
            .select(
                *_CONTEXT,
                pl.col("value").alias(f"{name}_value"),
                pl.col("trace_id").alias(f"{name}_trace_id"),
                pl.col("action_text_id").alias(f"{name}_text_id"),
                pl.col("episode_step").alias(f"{name}_episode"),
            )
        )

    good, bad = pl.col("ever_good") & ~pl.col("ever_bad"), pl.col("ever_bad") & ~pl.col("ever_good")
    return (
        extreme(bad, "worst", descending=False)
        .join(extreme(good, "best", descending=True), on=_CONTEXT, how="inner")
        .with_columns(value_gap=(pl.col("best_value") - pl.col("worst_value")).round(6))
        .rename({"best_text_id": "prefer_text_id", "worst_text_id": "avoid_text_id"})
    )


def _holders(paired: pl.LazyFrame, policies: pl.LazyFrame) -> pl.LazyFrame:
    """`lane_id`, `context`, `policy_ids`: the experiences whose evidence holds the worse trace."""
    episodes = (
        policies.filter(pl.col("status") != "archived")
        .select("lane_id", "policy_id", worst_episode="source_episode_ids")
        .explode("worst_episode")
    )
    return (
        paired.select(*_CONTEXT, "worst_episode")
        .join(episodes, on=["lane_id", "worst_episode"], how="inner")
        .group_by(_CONTEXT)
        .agg(policy_ids=pl.col("policy_id").unique().sort())
    )


def repair_lines(repairs: dy.LazyFrame[Repairs], guidance: pl.LazyFrame) -> pl.LazyFrame:
    """The guidance lines that the repairs add to their experiences; known ones are left out."""
    rows = repairs.explode("policy_ids").rename({"policy_ids": "policy_id"})
    sides = {"prefer": "prefer_text_id", "avoid": "avoid_text_id"}
    lines = pl.concat(
        [
            rows.select(
                "lane_id",
                "policy_id",
                pl.lit(kind, pl.Enum(GUIDANCE_KINDS)).alias("kind"),
                pl.col(text_id).alias("text_id"),
                "step",
                "feedback_id",
            ).drop_nulls("text_id")
            for kind, text_id in sides.items()
        ]
    )
    key = ["lane_id", "policy_id", "kind", "text_id"]
    return (
        lines.unique(key, keep="first", maintain_order=True)
        .join(guidance, on=key, how="anti")
        .sort(key)
    )


def contexts(
    traces: pl.LazyFrame, trajectories: dy.LazyFrame[Trajectories], tasks: pl.LazyFrame
) -> pl.LazyFrame:
    """Every trace with its `action_text_id`, `tool` and `context`: the task's domain and the tool
    called. What is untagged shares no context."""
    done = trajectories.select("execution_id", "position", "action_text_id", "tool")
    return (
        traces.join(done, on=["execution_id", "position"], how="inner")
        .join(
            tasks.select("lane_id", "episode_step", "domain"),
            on=["lane_id", "episode_step"],
            how="inner",
        )
        .filter(
            pl.col("domain").is_not_null()
            & pl.col("tool").is_not_null()
            & pl.col("action_text_id").is_not_null()
        )
        .with_columns(context=pl.concat_str("domain", pl.lit("|"), "tool"))
    )


def _now(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")
