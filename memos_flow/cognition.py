"""Environment cognition: what several experiences say about an environment (section 4.7)."""

import dataframely as dy

from memos_flow.schemas import WorldModels


def cognition() -> dy.LazyFrame[WorldModels]:
    """No cognition yet: the stage has its place in the step and its table."""
    return WorldModels.create_empty(lazy=True)
