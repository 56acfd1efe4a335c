"""Settings are columns: one row holds every parameter of one setting of the memory."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import CHECK_KINDS


def _unit() -> dy.Float64:
    """A share, probability or similarity threshold in [0, 1]."""
    return dy.Float64(min=0, max=1)


def _count(at_least: int = 0) -> dy.Int32:
    return dy.Int32(min=at_least)


class Variants(dy.Schema):
    """One row per variant. A column `gate_theta_magnitude` is the setting `gate.theta_magnitude`.

    Defaults and their meaning are in the configuration file `settings.yaml`, in this order.
    """

    variant_id = dy.String(primary_key=True, min_length=1)
    #: The exit code of the acceptance report looks at this variant.
    judged = dy.Bool()
    #: Criteria that this setting exists to break.
    expected_fail = dy.List(dy.String(), nullable=False)

    clock_days_per_step = dy.Float64(min=0)

    verdict_weights = dy.Struct({kind: _unit() for kind in CHECK_KINDS}, nullable=False)
    verdict_share_floor = _unit()
    verdict_numeric_floor = _unit()

    feedback_enabled = dy.Bool()
    feedback_split = dy.Enum(["lesson", "whole"])
    feedback_reveal_expected = dy.Bool()
    feedback_default_magnitude = _unit()
    feedback_bare_negative_actionable = dy.Bool()

    gate_theta_magnitude = dy.Float64(min=0)
    gate_theta_confidence = dy.Float64(min=0)
    gate_theta_r_task = dy.Float64(min=0)
    gate_theta_severity = dy.Float64(min=0)

    reward_alpha = _unit()
    reward_gamma = _unit()
    reward_half_life_days = dy.Float64(min_exclusive=0)

    draft_check_confidence = _unit()
    draft_active_confidence = _unit()

    merge_similarity = dy.Float64(min=-1)
    merge_cross_type_similarity = dy.Float64(min=-1)
    merge_near_duplicate_similarity = dy.Float64(min=-1)
    merge_guidance_lines = _count(1)
    merge_any_validates = dy.Bool()

    validation_similarity = dy.Float64(min=-1)
    validation_observational = dy.Enum(["use", "ignore"])
    validation_confidence_step = _unit()

    repair_enabled = dy.Bool()
    repair_burst_failures = _count(1)
    repair_burst_window = _count(1)
    repair_value_gap = dy.Float64(min=0)
    repair_cooldown_steps = _count()

    induction_enabled = dy.Bool()
    induction_min_trace_value = dy.Float64(min=-1, max=1)
    induction_absolute_value = dy.Bool()
    induction_association_similarity = dy.Float64(min=-1)
    induction_signature_bonus = _unit()
    induction_min_episodes = _count(1)
    induction_softmax_temperature = dy.Float64(min_exclusive=0)
    induction_softmax_min_traces = _count(1)
    induction_prior = dy.Float64(min=-1, max=1)
    induction_prior_min = dy.Float64(min=-1, max=1)
    induction_prior_max = dy.Float64(min=-1, max=1)
    induction_pseudo_count = dy.Float64(min=0)
    induction_gain_step = _unit()
    induction_archive_gain = dy.Float64(min=-1, max=1)

    skills_enabled = dy.Bool()
    skills_anchor_required = dy.Bool()
    skills_min_gain = dy.Float64(min=-1)
    skills_min_support = _count()
    skills_grouping = dy.Enum(["cluster", "experience", "domain"])
    skills_cluster_similarity = dy.Float64(min=-1)
    skills_activate_passed = _count()
    skills_archive_eta = _unit()
    skills_archive_tried = _count(1)

    cognition_enabled = dy.Bool()
    cognition_min_experiences = _count(2)
    cognition_min_confidence = _unit()
    cognition_cluster_similarity = dy.Float64(min=-1)
    cognition_loose_damping = _unit()

    recall_packet = dy.Enum(["memory", "none", "shuffled", "irrelevant", "oracle"])
    recall_skills = _count()
    recall_experiences = _count()
    recall_traces = _count()
    recall_world_models = _count()
    recall_avoidance = dy.Bool()
    recall_candidates = dy.Bool()
    recall_candidate_confidence = _unit()
    recall_provenance_dedupe = dy.Bool()
    recall_similarity = dy.Enum(["vector", "lexical", "hybrid"])
    recall_context_weight = _unit()
    recall_field_bonus = _unit()
    recall_ranker = dy.Enum(["linear", "rrf_mmr"])
    recall_min_similarity = dy.Float64(min=-1)
    recall_floor_ratio = _unit()
    recall_weight_similarity = dy.Float64(min=0)
    recall_weight_salience = dy.Float64(min=0)
    recall_weight_confidence = dy.Float64(min=0)
    recall_weight_recency = dy.Float64(min=0)
    recall_weight_support = dy.Float64(min=0)
    recall_half_life_days = dy.Float64(min_exclusive=0)
    recall_support_saturation = dy.Float64(min_exclusive=0)
    recall_bm25_k1 = dy.Float64(min=0)
    recall_bm25_b = _unit()
    recall_rrf_k = dy.Float64(min=0)
    recall_mmr_lambda = _unit()

    injection_budget_characters = _count()

    @dy.rule()
    def judged_variants_break_nothing(cls) -> pl.Expr:
        return ~pl.col("judged") | (pl.col("expected_fail").list.len() == 0)

    @dy.rule()
    def prior_bounds_are_ordered(cls) -> pl.Expr:
        return pl.col("induction_prior_min") <= pl.col("induction_prior_max")
