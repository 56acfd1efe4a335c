"""Reward: an episode's value from all its feedback, spread back over its traces (section 4.1)."""

from math import ceil, log2

import dataframely as dy
import polars as pl

from memos_flow.schemas import Episodes, Feedback, Policies, Traces, Trajectories, Trials
from memos_flow.schemas.vocabulary import STEP_SPAN

#: Magnitudes are summed as whole micro-units: integer sums do not depend on their order.
_MICRO = 1_000_000

_EPISODE = ["lane_id", "episode_step"]


def episodes(
    feedback: dy.LazyFrame[Feedback],
    earlier_feedback: dy.LazyFrame[Feedback],
    trials: dy.LazyFrame[Trials],
) -> dy.LazyFrame[Episodes]:
    """The episodes that this step opened, and the closed ones that late feedback re-scores.

    `r_task` = sum(sign * magnitude**2) / sum(magnitude) over all explicit feedback of the episode;
    0 without any. Duplicates and quarantined rows do not count. A payload decides the outcome,
    else the first text that says one.
    """
    touched = pl.concat(
        [
            trials.select("lane_id", episode_step="step", updated_step="step"),
            feedback.select("lane_id", "episode_step", updated_step="step"),
        ]
    ).unique(_EPISODE)
    counted = pl.concat([earlier_feedback, feedback]).filter(
        (pl.col("channel") == "explicit") & ~pl.col("duplicate") & pl.col("quarantine").is_null()
    )
    squared = (pl.col("magnitude").pow(2) * _MICRO).round().cast(pl.Int64)
    sign = (pl.col("polarity") == "positive").cast(pl.Int64) - (
        pl.col("polarity") == "negative"
    ).cast(pl.Int64)
    by_payload = pl.col("outcome_source") == "payload"
    by_text = pl.col("outcome_source") == "text"
    scored = (
        touched.join(counted, on=_EPISODE, how="inner")
        .sort("lane_id", "feedback_id")
        .group_by(_EPISODE, maintain_order=True)
        .agg(
            signed=(sign * squared).sum(),
            total=(pl.col("magnitude") * _MICRO).round().cast(pl.Int64).sum(),
            ruled=pl.col("outcome").filter(by_payload).first(),
            said=pl.col("outcome").filter(by_text).first(),
            verifier_severity=pl.col("verifier_severity").filter(by_payload).first(),
        )
    )
    source = (
        pl.when(pl.col("ruled").is_not_null())
        .then(pl.lit("payload"))
        .when(pl.col("said").is_not_null())
        .then(pl.lit("text"))
        .otherwise(pl.lit("none"))
    )
    return Episodes.cast(
        touched.join(scored, on=_EPISODE, how="left")
        .select(
            *_EPISODE,
            "updated_step",
            outcome=pl.coalesce(pl.col("ruled", "said").cast(pl.String), pl.lit("none")),
            outcome_source=source,
            verifier_severity="verifier_severity",
            r_task=pl.when(pl.col("total") > 0)
            .then(pl.col("signed") / pl.col("total"))
            .otherwise(0.0)
            .clip(-1, 1),
        )
        .sort(_EPISODE)
    )


def rescored(
    policies: dy.LazyFrame[Policies],
    episodes: dy.LazyFrame[Episodes],
    earlier_episodes: dy.LazyFrame[Episodes],
) -> dy.LazyFrame[Policies]:
    """New versions of the experiences whose episodes late feedback re-scored.

    The gain of a success is the best positive reward of its episodes, as they stand now.
    """
    own = policies.select("lane_id", "policy_id", episode_step="source_episode_ids").explode(
        "episode_step"
    )
    late = episodes.filter(pl.col("episode_step") < pl.col("updated_step"))
    touched = (
        own.join(late, on=_EPISODE, how="inner")
        .group_by("lane_id", "policy_id")
        .agg(late_step=pl.col("updated_step").max())
    )
    now = pl.concat([earlier_episodes.join(episodes, on=_EPISODE, how="anti"), episodes])
    best = (
        own.join(touched, on=["lane_id", "policy_id"], how="semi")
        .join(now, on=_EPISODE, how="inner")
        .group_by("lane_id", "policy_id")
        .agg(best=pl.col("r_task").max().clip(0, 1))
    )
    succeeds = pl.col("experience_type") == "success_pattern"
    return Policies.cast(
        policies.join(touched, on=["lane_id", "policy_id"], how="inner")
        .join(best, on=["lane_id", "policy_id"], how="left")
        .with_columns(
            updated_step="late_step",
            gain=pl.when(succeeds).then(pl.coalesce("best", "gain")).otherwise("gain"),
        )
        .drop("late_step", "best")
    )


def valued_traces(
    episodes: dy.LazyFrame[Episodes],
    trials: dy.LazyFrame[Trials],
    trajectories: dy.LazyFrame[Trajectories],
    settings: pl.LazyFrame,
    longest: int,
) -> dy.LazyFrame[Traces]:
    """The traces of the episodes, with their value and priority as of `updated_step`.

    `V_T = R` and `V_t = alpha_t * R + (1 - alpha_t) * gamma * V_{t+1}`, by doubling: composing the
    affine maps of 1, 2, 4, ... following traces reaches an episode of `longest` traces in
    log2(longest) passes, whatever the alphas.
    """
    alpha = pl.coalesce("alpha", "reward_alpha")
    last = pl.col("position") == pl.col("position").max().over(_EPISODE)
    reward = pl.col("r_task")
    rows = (
        episodes.join(trials.select("lane_id", "execution_id", episode_step="step"), on=_EPISODE)
        .join(trajectories, on="execution_id")
        .join(
            settings.select(
                "lane_id",
                "reward_alpha",
                "reward_gamma",
                "reward_half_life_days",
                "clock_days_per_step",
            ),
            on="lane_id",
        )
        .sort("lane_id", "episode_step", "position")
        .with_columns(
            constant=pl.when(last).then(reward).otherwise(alpha * reward),
            factor=pl.when(last).then(0.0).otherwise((1 - alpha) * pl.col("reward_gamma")),
        )
    )
    for power in range(ceil(log2(max(longest, 1)))):
        ahead = -(2**power)
        following = pl.col("constant").shift(ahead).over(_EPISODE).fill_null(0.0)
        rows = rows.with_columns(
            constant=pl.col("constant") + pl.col("factor") * following,
            factor=pl.col("factor") * pl.col("factor").shift(ahead).over(_EPISODE).fill_null(0.0),
        )
    age = (pl.col("updated_step") - pl.col("episode_step")) * pl.col("clock_days_per_step")
    value = pl.col("constant").round(9).clip(-1, 1)
    return Traces.cast(
        rows.with_columns(value=value).select(
            "lane_id",
            "updated_step",
            "episode_step",
            "execution_id",
            "position",
            "value",
            trace_id=pl.col("episode_step").cast(pl.Int64) * STEP_SPAN + pl.col("position"),
            priority=pl.col("value").clip(0, 1) * 0.5 ** (age / pl.col("reward_half_life_days")),
        )
    )
