"""Skills: callable procedures, anchored in success (section 4.6)."""

import dataframely as dy

from memos_flow.schemas import Eligibility, Skills


def eligibility() -> dy.LazyFrame[Eligibility]:
    """No decisions yet: the stage has its place in the step and its table."""
    return Eligibility.create_empty(lazy=True)


def built() -> dy.LazyFrame[Skills]:
    """No skills yet: the stage has its place in the step and its table."""
    return Skills.create_empty(lazy=True)
