"""Induction: experiences from positive traces, beside the feedback path (section 4.5)."""

import dataframely as dy

from memos_flow.schemas import CandidatePool


def pooled() -> dy.LazyFrame[CandidatePool]:
    """No candidates yet: the stage has its place in the step and its table."""
    return CandidatePool.create_empty(lazy=True)
