"""The acceptance report: every criterion as k of n opportunities, per variant (section 4.11).

A criterion is a function from the tables to its opportunities: one row each, with `lane_id`, `step`
and `met`. What the tables say of themselves is not believed where they can be asked again: an
effect counts only if the experience it names has changed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from memos_flow.schemas.vocabulary import ANCHOR_TYPES, EXPERIENCE_TYPES
from reports.ground_truth import is_simulated
from reports.retrieval import relevance
from reports.summary import Tables, injected_experiences, variant_of_lanes

Verdict = Literal["pass", "fail", "not_applicable", "expected_fail"]

_STEP = ["lane_id", "step"]
#: Experiences that tell of a failure.
_NEGATIVE_TYPES = ["failure_avoidance", "repair_instruction"]
#: Rows shown per criterion as evidence: those that are not met first.
_EVIDENCE_ROWS = 3


@dataclass(frozen=True)
class Criterion:
    """One line of the report."""

    statement: str
    opportunities: Callable[[Tables], pl.DataFrame]
    #: Passes from `acceptance.recall_rate` on, instead of only at k = n.
    recall: bool = False


def acceptance(tables: Tables, recall_rate: float) -> list[dict[str, Any]]:
    """One entry per variant and criterion: `variant`, `judged`, `id`, `statement`, `verdict`,
    `met`, `opportunities`, `evidence` (a few rows, unmet first) and `why`."""
    lanes = variant_of_lanes(tables)
    return [
        entry
        for name, criterion in CRITERIA.items()
        for entry in _entries(
            name,
            criterion,
            criterion.opportunities(tables).select(*_STEP, "met").join(lanes, on="lane_id"),
            tables["variants"],
            recall_rate,
        )
    ]


def accepted(entries: list[dict[str, Any]]) -> bool:
    """No judged variant fails a criterion."""
    return not any(entry["judged"] and entry["verdict"] == "fail" for entry in entries)


def _entries(
    name: str,
    criterion: Criterion,
    rows: pl.DataFrame,
    variants: pl.DataFrame,
    recall_rate: float,
) -> list[dict[str, Any]]:
    counted = rows.group_by("variant_id").agg(met=pl.col("met").sum(), opportunities=pl.len())
    table = variants.select("variant_id", "judged", "expected_fail").join(
        counted, on="variant_id", how="left", maintain_order="left"
    )
    entries = []
    for variant in table.with_columns(pl.col("met", "opportunities").fill_null(0)).iter_rows(
        named=True
    ):
        met, opportunities = variant["met"], variant["opportunities"]
        evidence = (
            rows.filter(pl.col("variant_id") == variant["variant_id"])
            .sort("met", *_STEP)
            .head(_EVIDENCE_ROWS)
            .select(*_STEP, "met")
        )
        needed = recall_rate if criterion.recall else 1.0
        verdict: Verdict = "pass"
        if opportunities == 0:
            verdict = "not_applicable"
        elif met / opportunities < needed:
            verdict = "expected_fail" if name in variant["expected_fail"] else "fail"
        entries.append(
            {
                "variant": variant["variant_id"],
                "judged": variant["judged"],
                "id": name,
                "statement": criterion.statement,
                "verdict": verdict,
                "met": met,
                "opportunities": opportunities,
                "evidence": evidence.to_dicts(),
                "why": "no opportunity in this run" if opportunities == 0 else None,
            }
        )
    return entries


def _versions(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step`, `policy_id` and columns of each experience version, by feedback."""
    return tables["policies"].rename({"updated_step": "step"})


def _told(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step`, `feedback_id`: the feedback that a version written at `step` rests on."""
    return (
        _versions(tables)
        .select(*_STEP, feedback_id="source_feedback_ids")
        .explode("feedback_id")
        .unique()
        .with_columns(told=pl.lit(True))
    )


def _judged_lessons(tables: Tables) -> pl.DataFrame:
    """Lessons with the outcome of their episode as it was at their step."""
    episodes = tables["episodes"].select("lane_id", "episode_step", "outcome", step="updated_step")
    return tables["lessons"].join(episodes, on=["lane_id", "episode_step", "step"], how="left")


def _failed_round_teaches(tables: Tables) -> pl.DataFrame:
    failed = tables["feedback"].filter(
        (pl.col("source") == "verifier") & (pl.col("outcome") == "fail")
    )
    significant = tables["lessons"].filter(pl.col("significant") & (pl.col("dropped").is_null()))
    return (
        failed.join(significant, on=["lane_id", "feedback_id"], how="semi")
        .join(_told(tables), on=[*_STEP, "feedback_id"], how="left")
        .with_columns(met=pl.col("told").fill_null(False))
    )


def _recalling(tables: Tables) -> pl.DataFrame:
    """Trials of lanes whose variant recalls from its memory."""
    recalling = tables["variants"].filter(pl.col("recall_packet") == "memory")
    lanes = tables["lanes"].join(recalling, on="variant_id", how="semi")
    return tables["trials"].join(lanes, on="lane_id", how="semi")


def _carried(tables: Tables) -> pl.DataFrame:
    """Injected experiences, as `policy_id`, with the steps of the version recalled."""
    return injected_experiences(tables).select(
        *_STEP, "created_step", "updated_step", "experience_type", policy_id="item_id"
    )


def _next_task_recalls_failure(tables: Tables) -> pl.DataFrame:
    """The trial before it taught a lesson of failure in the same family."""
    taught = (
        _sure_enough(tables)
        .filter((pl.col("evidence_polarity") == "negative") & pl.col("effect").is_not_null())
        .select("lane_id", "policy_id", learned="step")
        .join(
            tables["trials"].select("lane_id", "family", learned="step"),
            on=["lane_id", "learned"],
        )
    )
    return _recalled_after(_recalling(tables), taught, tables, on=["lane_id", "family", "learned"])


def _failure_then_recall(tables: Tables) -> pl.DataFrame:
    """As S2, for two trials in a row whatever their family, the first failed."""
    failed = tables["trials"].filter(~pl.col("passed")).select("lane_id", learned="step")
    taught = (
        _sure_enough(tables)
        .filter(pl.col("effect").is_not_null() & (pl.col("evidence_polarity") == "negative"))
        .select("lane_id", "policy_id", learned="step")
        .join(failed, on=["lane_id", "learned"], how="semi")
    )
    return _recalled_after(_recalling(tables), taught, tables, on=["lane_id", "learned"])


def _sure_enough(tables: Tables) -> pl.DataFrame:
    """Lessons whose experience the variant may recall: active, or a sure candidate."""
    rules = variant_of_lanes(tables).join(
        tables["variants"].select("variant_id", "recall_candidates", "recall_candidate_confidence"),
        on="variant_id",
    )
    recallable = (
        tables["policies"]
        .select("lane_id", "policy_id", "status", "confidence", step="updated_step")
        .join(rules, on="lane_id")
        .filter(
            (pl.col("status") == "active")
            | (
                (pl.col("status") == "candidate")
                & pl.col("recall_candidates")
                & (pl.col("confidence") >= pl.col("recall_candidate_confidence"))
            )
        )
    )
    return tables["lessons"].join(recallable, on=[*_STEP, "policy_id"], how="semi")


def _recalled_after(
    trials: pl.DataFrame, taught: pl.DataFrame, tables: Tables, on: list[str]
) -> pl.DataFrame:
    carried = _carried(tables).select(*_STEP, "policy_id").with_columns(carried=pl.lit(True))
    return (
        trials.with_columns(learned=pl.col("step") - 1)
        .join(taught, on=on, how="inner")
        .join(carried, on=[*_STEP, "policy_id"], how="left")
        .group_by(_STEP)
        .agg(met=pl.col("carried").fill_null(False).any())
    )


def _typed_as(tables: Tables, where: pl.Expr, expected: str) -> pl.DataFrame:
    return (
        _judged_lessons(tables)
        .filter(pl.col("effect").is_not_null() & where)
        .with_columns(met=pl.col("experience_type") == expected)
    )


def _prohibitions_are_avoidances(tables: Tables) -> pl.DataFrame:
    where = (
        (pl.col("outcome") == "fail")
        & (pl.col("directive_sign") == "do_not")
        & (pl.col("shape") != "preference")
    )
    return _typed_as(tables, where, "failure_avoidance")


def _mismatches_are_repairs(tables: Tables) -> pl.DataFrame:
    where = (pl.col("outcome") == "fail") & (pl.col("origin") == "check")
    return _typed_as(tables, where, "repair_instruction")


def _successes_are_patterns(tables: Tables) -> pl.DataFrame:
    return _typed_as(
        tables, (pl.col("outcome") == "pass") & (pl.col("origin") == "traces"), "success_pattern"
    )


def _silence_teaches_nothing(tables: Tables) -> pl.DataFrame:
    """Failed episodes without a significant lesson leave no experience."""
    failed = (
        tables["episodes"].filter(pl.col("outcome") == "fail").select("lane_id", "episode_step")
    )
    significant = tables["lessons"].filter(pl.col("effect").is_not_null())
    told = (
        tables["policies"]
        .select("lane_id", episode_step="source_episode_ids")
        .explode("episode_step")
        .unique()
        .with_columns(told=pl.lit(True))
    )
    return (
        failed.unique()
        .join(significant, on=["lane_id", "episode_step"], how="anti")
        .join(told, on=["lane_id", "episode_step"], how="left")
        .select("lane_id", step="episode_step", met=pl.col("told").is_null())
    )


def _salient_failure_is_recallable(tables: Tables) -> pl.DataFrame:
    """Negative evidence, salient by the variant's severity threshold, and of an experience that is
    sure enough to be active by the variant's own confidence threshold.

    A lesson that only supports a validated repair is left out: that one was confirmed by a pass.
    """
    thresholds = tables["variants"].select(
        "variant_id", "gate_theta_severity", "draft_active_confidence"
    )
    lanes = variant_of_lanes(tables).join(thresholds, on="variant_id")
    versions = _versions(tables).select(
        *_STEP, "policy_id", "status", "skill_eligible", "confidence", kind="experience_type"
    )
    return (
        tables["lessons"]
        .filter(pl.col("effect").is_not_null() & (pl.col("evidence_polarity") == "negative"))
        .join(lanes, on="lane_id")
        .filter(pl.col("salience") >= pl.col("gate_theta_severity"))
        .join(versions, on=[*_STEP, "policy_id"], how="left")
        .filter(
            (pl.col("kind") != "repair_validated")
            & (pl.col("confidence") >= pl.col("draft_active_confidence"))
        )
        .with_columns(
            met=(
                (pl.col("status") == "active")
                & ~pl.col("skill_eligible")
                & pl.col("kind").is_in(_NEGATIVE_TYPES)
            ).fill_null(False)
        )
    )


def _one_trial_per_task(tables: Tables) -> pl.DataFrame:
    return (
        tables["trials"]
        .group_by("lane_id", "family", "task")
        .agg(pl.col("step").min(), met=pl.len() == 1)
    )


def _verifier_feedback(tables: Tables) -> pl.DataFrame:
    return tables["feedback"].filter(pl.col("source") == "verifier")


def _feedback_after_every_verifier(tables: Tables) -> pl.DataFrame:
    structured = _verifier_feedback(tables).select(
        "lane_id", step="episode_step", there=pl.lit(True)
    )
    return (
        tables["trials"]
        .filter(pl.col("reward").is_not_null())
        .join(structured.unique(), on=_STEP, how="left")
        .with_columns(met=pl.col("there").fill_null(False))
    )


def _bound_to_what_just_ended(tables: Tables) -> pl.DataFrame:
    return _verifier_feedback(tables).with_columns(met=pl.col("episode_step") == pl.col("step"))


def _no_boundary_phrase(tables: Tables) -> pl.DataFrame:
    """No feedback with a boundary phrase reached the memory: asked of the texts themselves."""
    with_phrase = tables["texts"].filter(pl.col("text").str.contains_any(["换个任务", "换个话题"]))
    effective = tables["lessons"].filter(pl.col("effect").is_not_null())
    reached = (
        tables["feedback"]
        .join(with_phrase, on="text_id", how="semi")
        .join(effective, on=["lane_id", "feedback_id"], how="semi")
        .select("lane_id", "feedback_id", reached=pl.lit(True))
    )
    return (
        tables["feedback"]
        .join(reached, on=["lane_id", "feedback_id"], how="left")
        .with_columns(met=pl.col("reached").is_null())
    )


def _flushed_before_the_next(tables: Tables) -> pl.DataFrame:
    """When the next task started, the episode was scored and every lesson had its fate."""
    scored = tables["episodes"].select("lane_id", step="episode_step", updated_step="updated_step")
    open_lessons = tables["lessons"].filter(
        pl.col("dropped").is_null() & pl.col("effect").is_null()
    )
    return (
        tables["trials"]
        .join(_following(tables), on=_STEP, how="semi")
        .join(scored.group_by(_STEP).agg(pl.col("updated_step").min()), on=_STEP, how="left")
        .join(open_lessons.group_by(_STEP).agg(unresolved=pl.len()), on=_STEP, how="left")
        .with_columns(
            met=(pl.col("updated_step") == pl.col("step")).fill_null(False)
            & pl.col("unresolved").is_null()
        )
    )


def _following(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step` of the trials that another follows."""
    return tables["trials"].select("lane_id", pl.col("step") - 1)


def _just_learned_is_considered(tables: Tables) -> pl.DataFrame:
    learned = (
        _versions(tables)
        .filter(pl.col("status") == "active")
        .select("lane_id", "policy_id", learned="step")
    )
    considered = tables["packet_items"].select(*_STEP, policy_id="item_id", considered=pl.lit(True))
    return (
        _recalling(tables)
        .with_columns(learned=pl.col("step") - 1)
        .join(learned, on=["lane_id", "learned"], how="inner")
        .join(considered, on=[*_STEP, "policy_id"], how="left")
        .group_by(_STEP)
        .agg(met=pl.col("considered").fill_null(False).all())
    )


def _relevant_is_recalled(tables: Tables) -> pl.DataFrame:
    """By the fault matrix where there is one, else as the memory recorded it by its checks."""
    if not is_simulated(tables):
        return _promised(tables, "C3")
    return (
        relevance(tables)
        .join(_recalling(tables), on=_STEP, how="semi")
        .group_by(_STEP)
        .agg(met=pl.col("rank").is_not_null().any())
    )


def _promised(tables: Tables, criterion: str) -> pl.DataFrame:
    rows = tables["opportunities"].filter(
        (pl.col("criterion") == criterion) & (pl.col("opportunities") > 0)
    )
    return rows.select(*_STEP, met=pl.col("met") == pl.col("opportunities"))


def _negative_traces_stay_out(tables: Tables) -> pl.DataFrame:
    """Negative traces are no evidence of an experience; those of a verified pass that somebody
    disliked are its success's own."""
    passed = (
        tables["episodes"].filter(pl.col("outcome") == "pass").select("lane_id", "episode_step")
    )
    sources = (
        tables["policies"]
        .select("lane_id", trace_id="source_trace_ids")
        .explode("trace_id")
        .drop_nulls()
        .unique()
        .with_columns(used=pl.lit(True))
    )
    return (
        tables["traces"]
        .filter(pl.col("value") < 0)
        .join(passed, on=["lane_id", "episode_step"], how="anti")
        .join(sources, on=["lane_id", "trace_id"], how="left")
        .select("lane_id", step="episode_step", met=pl.col("used").is_null())
    )


def _minimum_value_not_negative(tables: Tables) -> pl.DataFrame:
    return (
        tables["lanes"]
        .join(tables["variants"].select("variant_id", "induction_min_trace_value"), on="variant_id")
        .select(
            "lane_id",
            step=pl.lit(0, pl.Int32),
            met=pl.col("induction_min_trace_value") >= 0,
        )
    )


def _one_evaluation_per_task(tables: Tables) -> pl.DataFrame:
    evaluations = (
        _verifier_feedback(tables)
        .filter(~pl.col("duplicate"))
        .group_by("lane_id", step="episode_step")
        .agg(evaluations=pl.len())
    )
    return (
        tables["trials"]
        .filter(pl.col("reward").is_not_null())
        .join(evaluations, on=_STEP, how="left")
        .with_columns(met=pl.col("evaluations").fill_null(0) == 1)
    )


def _failed_trials_are_not_repeated(tables: Tables) -> pl.DataFrame:
    last = tables["trials"].group_by("lane_id", "family", "task").agg(last=pl.col("step").max())
    return (
        tables["trials"]
        .filter(~pl.col("passed"))
        .join(last, on=["lane_id", "family", "task"])
        .with_columns(met=pl.col("last") == pl.col("step"))
    )


# Skills and environment cognition.


def _skill_sources(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `skill_id`, `version`, `step` (built), `policy_id`, and whether the skill names it
    as an anchor."""
    anchored = pl.col("anchor_policy_ids").list.contains(pl.col("policy_id"))
    return (
        tables["skills"]
        .select(
            *("lane_id", "skill_id", "version", "anchor_policy_ids"),
            step="built_step",
            policy_id="source_policy_ids",
        )
        .explode("policy_id")
        .with_columns(named_anchor=anchored)
        .drop("anchor_policy_ids")
    )


def _types_then(tables: Tables, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the `experience_type` that each row's experience had at the row's `step`."""
    versions = (
        tables["policies"]
        .select("lane_id", "policy_id", "experience_type", step="updated_step")
        .sort("step")
    )
    return rows.sort("step").join_asof(
        versions,
        on="step",
        by=["lane_id", "policy_id"],
        strategy="backward",
        check_sortedness=False,
    )


def _skill_versions(tables: Tables) -> pl.DataFrame:
    """Each skill version with `anchors`: how many of its named anchors were successes when it was
    built, by the experiences' own rows; and `avoidances` among its sources."""
    typed = _types_then(tables, _skill_sources(tables))
    is_anchor = pl.col("named_anchor") & pl.col("experience_type").is_in(ANCHOR_TYPES)
    return typed.group_by("lane_id", "skill_id", "version", "step").agg(
        anchors=is_anchor.sum(),
        avoidances=(pl.col("experience_type") == "failure_avoidance").sum(),
        named=pl.col("named_anchor").sum(),
    )


def _skills_are_anchored(tables: Tables) -> pl.DataFrame:
    return _skill_versions(tables).with_columns(
        met=(pl.col("anchors") > 0) & (pl.col("anchors") == pl.col("named"))
    )


def _avoidance_alone_makes_no_skill(tables: Tables) -> pl.DataFrame:
    """Every avoidance: whatever skill it is part of has a success anchor beside it."""
    avoidances = (
        tables["policies"]
        .filter(pl.col("experience_type") == "failure_avoidance")
        .group_by("lane_id", "policy_id")
        .agg(step=pl.col("updated_step").max())
    )
    unanchored = (
        _skill_sources(tables)
        .join(
            _skill_versions(tables).filter(pl.col("anchors") == 0),
            on=["lane_id", "skill_id", "version"],
            how="semi",
        )
        .select("lane_id", "policy_id", alone=pl.lit(True))
        .unique()
    )
    return avoidances.join(unanchored, on=["lane_id", "policy_id"], how="left").with_columns(
        met=pl.col("alone").is_null()
    )


def _no_anchor_is_the_reason(tables: Tables) -> pl.DataFrame:
    """Each decision on an avoidance says `no-success-anchor`."""
    decisions = _types_then(tables, tables["eligibility"])
    return decisions.filter(pl.col("experience_type") == "failure_avoidance").with_columns(
        met=pl.col("decision") == "no-success-anchor"
    )


def _active_in_domains(tables: Tables, types: list[str]) -> pl.DataFrame:
    """`lane_id`, `domain`, `policy_id`, `updated_step` of active, tagged experiences of `types`."""
    newest = tables["policies"].sort("updated_step").unique(["lane_id", "policy_id"], keep="last")
    return newest.filter(
        (pl.col("status") == "active")
        & pl.col("domain").is_not_null()
        & pl.col("experience_type").is_in(types)
    )


def _success_and_avoidance_make_a_skill(tables: Tables) -> pl.DataFrame:
    """Lanes that know both in one domain end with a skill of both: the success as its anchor."""
    enabled = tables["lanes"].join(
        tables["variants"].filter("skills_enabled"), on="variant_id", how="semi"
    )
    eligible = (
        tables["eligibility"]
        .filter(pl.col("decision").is_in(["eligible", "up-to-date"]))
        .select("lane_id", "policy_id")
        .unique()
    )
    anchors = _active_in_domains(tables, list(ANCHOR_TYPES)).join(
        eligible, on=["lane_id", "policy_id"], how="semi"
    )
    both = (
        anchors.join(enabled, on="lane_id", how="semi")
        .select("lane_id", "domain")
        .unique()
        .join(
            _active_in_domains(tables, ["failure_avoidance"])
            .group_by("lane_id", "domain")
            .agg(step=pl.col("updated_step").max()),
            on=["lane_id", "domain"],
        )
    )
    holding = (
        _skill_versions(tables)
        .filter((pl.col("anchors") > 0) & (pl.col("avoidances") > 0))
        .select("lane_id", held=pl.lit(True))
        .unique()
    )
    return both.join(holding, on="lane_id", how="left").with_columns(
        met=pl.col("held").fill_null(False)
    )


def _avoidance_is_told_by_the_skill(tables: Tables) -> pl.DataFrame:
    texts = tables["texts"].select("text_id", "text")
    return (
        _skill_versions(tables)
        .filter(pl.col("avoidances") > 0)
        .join(
            tables["skills"].select("lane_id", "skill_id", "version", "text_id"),
            on=["lane_id", "skill_id", "version"],
        )
        .join(texts, on="text_id", how="left")
        .with_columns(met=pl.col("text").str.contains(r"(?m)^Avoid: "))
    )


def _recalled_sources(tables: Tables) -> pl.DataFrame:
    """Candidates whose source skill stood in the packet, with the `built_step` of that skill."""
    injected = tables["packet_items"].filter(
        (pl.col("channel") == "skill") & (pl.col("fate") == "injected")
    )
    versions = tables["skills"].select(
        *("lane_id", "updated_step", "built_step", "source_policy_ids"), item_id="skill_id"
    )
    covering = (
        injected.select(*_STEP, "item_id", "updated_step")
        .join(versions, on=["lane_id", "item_id", "updated_step"])
        .select(*_STEP, "built_step", item_id="source_policy_ids")
        .explode("item_id")
        .group_by(*_STEP, "item_id")
        .agg(pl.col("built_step").max())
    )
    return (
        tables["packet_items"]
        .filter(pl.col("channel") == "experience")
        .join(covering, on=[*_STEP, "item_id"], how="inner")
    )


def _covered_sources_are_dropped(tables: Tables) -> pl.DataFrame:
    older = pl.col("updated_step") <= pl.col("built_step")
    return _recalled_sources(tables).filter(older).with_columns(met=pl.col("fate") != "injected")


def _newer_sources_tell_what_is_new(tables: Tables) -> pl.DataFrame:
    """Of an injected newer source, no line that the skill was built with stands among the
    experiences of the packet."""
    newer = _recalled_sources(tables).filter(
        (pl.col("updated_step") > pl.col("built_step")) & (pl.col("fate") == "injected")
    )
    texts = tables["texts"].select(line_text_id="text_id", line="text")
    packet = (
        tables["packets"]
        .select(*_STEP, "text_id")
        .join(tables["texts"], on="text_id")
        .select(*_STEP, told=pl.col("text").str.split("## Relevant experiences").list.last())
    )
    old = (
        newer.select(*_STEP, "item_id", "built_step")
        .join(
            tables["guidance"].select(
                "lane_id", item_id="policy_id", line_step="step", line_text_id="text_id"
            ),
            on=["lane_id", "item_id"],
        )
        .filter(pl.col("line_step") <= pl.col("built_step"))
        .join(texts, on="line_text_id")
        .join(packet, on=_STEP)
        .filter(pl.col("told").str.contains(pl.concat_str(pl.lit("\n- "), "line"), literal=True))
        .select(*_STEP, "item_id", again=pl.lit(True))
        .unique()
    )
    return newer.join(old, on=[*_STEP, "item_id"], how="left").with_columns(
        met=pl.col("again").is_null()
    )


def _domains_form_cognitions(tables: Tables) -> pl.DataFrame:
    """Lanes with enough sure experiences of one domain key, one of them of a checked field."""
    rules = (
        tables["variants"]
        .filter("cognition_enabled")
        .select("variant_id", "cognition_min_experiences", "cognition_min_confidence")
    )
    lanes = variant_of_lanes(tables).join(rules, on="variant_id", how="inner")
    sure = (
        _active_in_domains(tables, list(EXPERIENCE_TYPES))
        .join(lanes, on="lane_id")
        .filter(pl.col("confidence") >= pl.col("cognition_min_confidence"))
        .group_by("lane_id", "domain", "tool", "cognition_min_experiences")
        .agg(
            step=pl.col("updated_step").max(),
            experiences=pl.len(),
            checked=(pl.col("check_kind").is_not_null() & pl.col("field").is_not_null()).any(),
        )
        .filter((pl.col("experiences") >= pl.col("cognition_min_experiences")) & pl.col("checked"))
    )
    formed = (
        tables["world_models"].select("lane_id", "domain", "tool", formed=pl.lit(True)).unique()
    )
    return sure.join(
        formed, on=["lane_id", "domain", "tool"], how="left", nulls_equal=True
    ).with_columns(met=pl.col("formed").fill_null(False))


def _sec13f_forms_a_cognition(tables: Tables) -> pl.DataFrame:
    return _domains_form_cognitions(tables).filter(pl.col("domain") == "sec13f")


CRITERIA: Mapping[str, Criterion] = {
    "S1": Criterion(
        "a failed verifier round creates or updates a typed experience", _failed_round_teaches
    ),
    "S2": Criterion(
        "the next task of the family recalls the earlier lesson of failure",
        _next_task_recalls_failure,
        recall=True,
    ),
    "S3": Criterion("avoidance alone makes no skill", _avoidance_alone_makes_no_skill),
    "S4": Criterion(
        "after a success a skill forms: the success as main evidence, the avoidance merged in",
        _success_and_avoidance_make_a_skill,
    ),
    "S5": Criterion("two experiences of one domain form a cognition", _domains_form_cognitions),
    "T1": Criterion(
        "a failure's prohibition becomes failure_avoidance", _prohibitions_are_avoidances
    ),
    "T2": Criterion(
        "an expected/actual mismatch becomes repair_instruction", _mismatches_are_repairs
    ),
    "T3": Criterion("a success becomes success_pattern", _successes_are_patterns),
    "T4": Criterion(
        "a failure without significant feedback becomes nothing", _silence_teaches_nothing
    ),
    "T5": Criterion(
        "highly salient negative feedback is recallable and not skill-eligible",
        _salient_failure_is_recallable,
    ),
    "T6": Criterion("avoidance only: no-success-anchor", _no_anchor_is_the_reason),
    "T7": Criterion(
        "success and avoidance: a skill with the Avoid", _avoidance_is_told_by_the_skill
    ),
    "T8": Criterion(
        "a skill and its source recalled together: the source is dropped",
        _covered_sources_are_dropped,
    ),
    "T9": Criterion(
        "source newer than the skill: only the new guidance", _newer_sources_tell_what_is_new
    ),
    "T10": Criterion("two SEC 13F experiences form a cognition", _sec13f_forms_a_cognition),
    "T11": Criterion(
        "two tasks in a row: failure, then recall at turn start", _failure_then_recall, recall=True
    ),
    "R1": Criterion("one trial per task", _one_trial_per_task),
    "R2": Criterion("structured feedback after every verifier", _feedback_after_every_verifier),
    "R3": Criterion("feedback bound to the episode that just ended", _bound_to_what_just_ended),
    "R4": Criterion("no boundary phrase in feedback reaches the memory", _no_boundary_phrase),
    "R5": Criterion("all stages flushed before the next task", _flushed_before_the_next),
    "R6": Criterion(
        "the next turn start considers what was just learned", _just_learned_is_considered
    ),
    "C1": Criterion("feedback rows grew", lambda tables: _promised(tables, "C1")),
    "C2": Criterion(
        "actionable significant feedback changed an experience",
        lambda tables: _promised(tables, "C2"),
    ),
    "C3": Criterion(
        "where a relevant earlier experience exists, the packet contains one",
        _relevant_is_recalled,
        recall=True,
    ),
    "N1": Criterion("not every negative trace becomes an experience", _negative_traces_stay_out),
    "N2": Criterion("min_trace_value is not negative", _minimum_value_not_negative),
    "N3": Criterion("no skill from avoidance alone", _skills_are_anchored),
    "N4": Criterion("one task, one evaluation", _one_evaluation_per_task),
    "N5": Criterion("no re-run until success", _failed_trials_are_not_repeated),
}
