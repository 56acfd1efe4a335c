"""Decision repair: pairs the better and the worse choice of a context (section 4.5)."""

import dataframely as dy

from memos_flow.schemas import Repairs


def repairs() -> dy.LazyFrame[Repairs]:
    """No repairs yet: the stage has its place in the step and its table."""
    return Repairs.create_empty(lazy=True)
