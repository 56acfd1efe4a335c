"""Positive traces that wait for a second episode (induction)."""

import dataframely as dy


class CandidatePool(dy.Schema):
    """A trace enters under its signature and leaves when its bucket induces an experience."""

    lane_id = dy.Int64(primary_key=True)
    signature = dy.String(primary_key=True, min_length=1)
    trace_id = dy.Int64(primary_key=True, min=0)
    episode_step = dy.Int32(min=0)
    updated_step = dy.Int32(primary_key=True, min=0)
    entered_step = dy.Int32(min=0)
    released_step = dy.Int32(nullable=True, min=0)
    #: The experience that the bucket induced.
    policy_id = dy.Int64(nullable=True, min=0)
