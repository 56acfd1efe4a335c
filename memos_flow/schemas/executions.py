"""What was really run or recorded, once per distinct (task, arm, seed, packet)."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import TRIAL_STATUSES, UNSCORED_STATUSES

#: Only a full pass is a pass (section 4.1).
FULL_PASS = 1 - 1e-9


class Executions(dy.Schema):
    """Content table: several lanes may share one execution of a deterministic agent."""

    execution_id = dy.Int64(primary_key=True)
    arm_id = dy.String(min_length=1)
    family = dy.String(min_length=1)
    task = dy.String(min_length=1)
    seed = dy.Int32(min=0)
    #: Null for recorded trials, whose agent saw no packet of ours.
    packet_text_id = dy.Int64(nullable=True)
    status = dy.Enum(TRIAL_STATUSES)
    reward = dy.Float64(nullable=True)
    passed = dy.Bool(nullable=True)
    checks_passed = dy.Int32(nullable=True, min=0)
    checks_total = dy.Int32(nullable=True, min=0)
    has_verifier_output = dy.Bool()
    #: The verifier's own log shows a crash, though a reward was recorded.
    verifier_suspect = dy.Bool()
    error_type = dy.String(nullable=True)
    tokens_input = dy.Int64(nullable=True, min=0)
    tokens_output = dy.Int64(nullable=True, min=0)
    tokens_cache = dy.Int64(nullable=True, min=0)
    cost_usd = dy.Float64(nullable=True, min=0)
    started_at = dy.Datetime(nullable=True, time_zone="UTC", time_unit="us")
    finished_at = dy.Datetime(nullable=True, time_zone="UTC", time_unit="us")
    #: The recorded folder, relative to its root; null for trials run here.
    recorded_path = dy.String(nullable=True)

    @dy.rule()
    def unscored_has_no_reward(cls) -> pl.Expr:
        return pl.col("status").is_in(UNSCORED_STATUSES) == pl.col("reward").is_null()

    @dy.rule()
    def unscored_has_no_verdict(cls) -> pl.Expr:
        return pl.col("reward").is_null() == pl.col("passed").is_null()

    @dy.rule()
    def a_pass_is_a_full_pass(cls) -> pl.Expr:
        return ~pl.col("passed") | (pl.col("reward") >= FULL_PASS)

    @dy.rule()
    def not_more_passed_than_checks(cls) -> pl.Expr:
        return pl.col("checks_passed") <= pl.col("checks_total")
