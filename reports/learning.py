"""Learning: do later tasks of a sequence go better, and better than without the memory?"""

import polars as pl

from reports.summary import Tables


def learning_curve(tables: Tables) -> pl.DataFrame:
    """`variant_id` and the pass rate at each `task_index`, one column per index, and `all`.

    Passed / planned: unscored trials count as not passed here and are told in the table of trials.
    """
    trials = _trials(tables)
    by_index = (
        trials.group_by("variant_id", "task_index")
        .agg(rate=pl.col("passed").mean())
        .sort("task_index")
        .with_columns(pl.col("task_index").cast(pl.String))
        .pivot(on="task_index", index="variant_id", values="rate")
    )
    overall = trials.group_by("variant_id").agg(pl.col("passed").mean().alias("all"))
    return by_index.join(overall, on="variant_id").sort("variant_id")


def paired_differences(tables: Tables, baseline: str = "off") -> pl.DataFrame:
    """Each setting against `baseline` at the same arm, family, seed and task: `variant_id`,
    `pairs`, `helped` (failed without, passed with), `harmed` (the reverse), `difference` of the
    pass rates. Empty where the baseline was not run."""
    trials = _trials(tables).select("variant_id", *_PAIR, "passed")
    without = trials.filter(pl.col("variant_id") == baseline).select(*_PAIR, without="passed")
    return (
        trials.filter(pl.col("variant_id") != baseline)
        .join(without, on=_PAIR, how="inner", nulls_equal=True)
        .group_by("variant_id")
        .agg(
            pairs=pl.len(),
            helped=(pl.col("passed") & ~pl.col("without")).sum(),
            harmed=(~pl.col("passed") & pl.col("without")).sum(),
            difference=pl.col("passed").mean() - pl.col("without").mean(),
        )
        .sort("variant_id")
    )


_PAIR = ["arm_id", "seed", "lane_family", "family", "task"]


def _trials(tables: Tables) -> pl.DataFrame:
    lanes = tables["lanes"].select("lane_id", "variant_id", "arm_id", "seed", lane_family="family")
    return (
        tables["trials"].join(lanes, on="lane_id").with_columns(pl.col("passed").fill_null(False))
    )
