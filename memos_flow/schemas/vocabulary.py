"""The closed vocabularies of the tables, each written down once."""

from typing import Final

#: Ids within a lane are ``step * STEP_SPAN + position``: unique, ordered by time, and independent
#: of whatever other lanes run beside it. ``3_000_002`` is the third row of step 3.
STEP_SPAN: Final = 1_000_000

#: What a step consists of: see `step.take_step`.
STEP_PARTS: Final = (
    "offering",
    "recalling",
    "hearing",
    "learning",
    "practising",
    "understanding",
)

CHECK_KINDS: Final = (
    "missing_output",
    "unreadable_output",
    "missing_field",
    "unexpected_field",
    "type_mismatch",
    "order",
    "value_mismatch",
    "numeric_deviation",
    "agent_error",
    "timeout",
    "other",
)

TRIAL_STATUSES: Final = ("scored", "agent_error", "agent_timeout", "verifier_error", "not_run")
#: Faults of the harness or the verifier: the trial has no reward and stays in "planned".
UNSCORED_STATUSES: Final = ("verifier_error", "not_run")

OUTCOMES: Final = ("pass", "fail", "none")
OUTCOME_SOURCES: Final = ("payload", "text", "none")
CHANNELS: Final = ("explicit", "implicit")
FEEDBACK_SOURCES: Final = ("verifier", "user", "chat")
POLARITIES: Final = ("positive", "negative", "neutral")
QUARANTINE_REASONS: Final = ("task-boundary-phrase", "attack")

LESSON_ORIGINS: Final = ("text", "check", "traces")
#: The first shape in this order that matches is the text's shape (section 4.2).
SHAPES: Final = (
    "preference",
    "correction",
    "constraint",
    "negative",
    "positive",
    "confusion",
    "instruction",
    "unknown",
)
DIRECTIVE_SIGNS: Final = ("do", "do_not")
#: Why a lesson did not become, or join, an experience. The funnel report counts these.
DROP_REASONS: Final = (
    "not-explicit",
    "not-actionable",
    "below-significance",
    "duplicate",
    "task-boundary-phrase",
    "attack",
    "retracted",
    "no-traces",
    "no-text",
    "praise-on-failure",
    "feedback-path-off",
)
LESSON_EFFECTS: Final = ("created", "merged", "folded", "validated")

EXPERIENCE_TYPES: Final = (
    "success_pattern",
    "repair_validated",
    "failure_avoidance",
    "repair_instruction",
    "preference",
)
#: The only types that may anchor a skill (red lines 3 and 4).
ANCHOR_TYPES: Final = ("success_pattern", "repair_validated")
EVIDENCE_POLARITIES: Final = ("positive", "negative", "neutral", "mixed")
EXPERIENCE_SOURCES: Final = ("verifier", "user", "chat", "induction")
LIFECYCLE_STATUSES: Final = ("candidate", "active", "archived")
GUIDANCE_KINDS: Final = ("prefer", "avoid", "check")
ELIGIBILITY: Final = (
    "eligible",
    "no-success-anchor",
    "status",
    "gain",
    "support",
    "up-to-date",
)

RECALL_CHANNELS: Final = ("skill", "experience", "trace", "world_model")
PACKET_SECTIONS: Final = ("skills", "do", "avoid", "check", "traces", "environment")
ITEM_FATES: Final = (
    "injected",
    "covered-by-skill",
    "below-floor",
    "top-k",
    "over-budget",
    "duplicate-text",
    "type-switched-off",
    "low-confidence",
    "control",
)
SCOPES: Final = ("family", "shared")
