"""Which experiences are about what: by the fault matrix for simulated trials, else by checks.

`about` is a fault of the family for simulated trials, `kind field` of a check for recorded ones.
"""

import polars as pl

from reports.summary import Tables


def _check(kind: str) -> pl.Expr:
    return pl.format("{} {}", pl.col(kind).cast(pl.String), "field").alias("about")


def is_simulated(tables: Tables) -> bool:
    """Whether the run knows which faults its trials showed."""
    return not tables["fault_matrix"].is_empty()


def failing(tables: Tables) -> pl.DataFrame:
    """`execution_id`, `about`: what went wrong, each once: the faults that showed, or the failing
    checks whose field is known."""
    if is_simulated(tables):
        return tables["shown_faults"].select("execution_id", about="fault")
    return (
        tables["checks"]
        .filter(~pl.col("passed") & pl.col("field").is_not_null())
        .select("execution_id", _check("kind"))
        .unique()
    )


def concerning(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step`, `about`: what a lesson would have to be about to matter in each trial.

    Simulated: every fault that breaks the task. Recorded: the checks that failed.
    """
    trials = tables["trials"].select("lane_id", "step", "family", "task", "execution_id")
    if not is_simulated(tables):
        return trials.join(failing(tables), on="execution_id").select("lane_id", "step", "about")
    breaking = tables["fault_matrix"].select("family", "task", about="fault").unique()
    return trials.join(breaking, on=["family", "task"]).select("lane_id", "step", "about")


def held(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `policy_id`, `about`, `learned`: what each experience is about, and since when.

    Simulated: what people said about a fault, and checks that fail by a fault that showed. A
    success is about no fault.
    """
    if not is_simulated(tables):
        return (
            tables["policies"]
            .filter(pl.col("field").is_not_null())
            .select(
                "lane_id",
                "policy_id",
                _check("check_kind"),
                learned="created_step",
            )
            .unique(["lane_id", "policy_id", "about"])
        )
    return (
        pl.concat([_said(tables), _checked(tables)])
        .group_by("lane_id", "policy_id", "about")
        .agg(pl.col("learned").min())
    )


def _lessons(tables: Tables) -> pl.DataFrame:
    """Lessons with an effect, with the trial that they speak of."""
    spoken_of = tables["trials"].select(
        "lane_id", "family", "task", "execution_id", episode_step="step"
    )
    return (
        tables["lessons"]
        .filter(pl.col("effect").is_not_null())
        .join(spoken_of, on=["lane_id", "episode_step"])
    )


def _said(tables: Tables) -> pl.DataFrame:
    remarks = tables["feedback"].select("lane_id", "feedback_id", remark_id="text_id")
    faults = tables["remark_faults"].rename({"text_id": "remark_id", "fault": "about"})
    return (
        _lessons(tables)
        .join(remarks, on=["lane_id", "feedback_id"])
        .join(faults, on=["family", "task", "remark_id"])
        .select("lane_id", "policy_id", "about", learned="step")
    )


def _checked(tables: Tables) -> pl.DataFrame:
    breaking = tables["fault_matrix"].select("family", "task", "check_kind", "field", about="fault")
    shown = tables["shown_faults"].select("execution_id", about="fault")
    return (
        _lessons(tables)
        .filter(pl.col("origin") == "check")
        .with_columns(pl.col("field").fill_null(""))
        .join(breaking, on=["family", "task", "check_kind", "field"])
        .join(shown, on=["execution_id", "about"], how="semi")
        .select("lane_id", "policy_id", "about", learned="step")
    )
