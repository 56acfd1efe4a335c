"""The prefer, avoid and check lines of experiences."""

import dataframely as dy

from memos_flow.schemas.vocabulary import GUIDANCE_KINDS


class Guidance(dy.Schema):
    """Append-only lines: an experience's guidance as of step t is its newest lines up to t."""

    lane_id = dy.Int64(primary_key=True)
    policy_id = dy.Int64(primary_key=True, min=0)
    kind = dy.Enum(GUIDANCE_KINDS, primary_key=True)
    text_id = dy.Int64(primary_key=True)
    step = dy.Int32(min=0)
    #: Null where the line comes from traces alone (induction).
    feedback_id = dy.Int64(nullable=True, min=0)
