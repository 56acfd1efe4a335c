"""What an agent did in an execution, step by step."""

import dataframely as dy


class Trajectories(dy.Schema):
    """Content table: thought, action and observation of each step, in order."""

    execution_id = dy.Int64(primary_key=True)
    position = dy.Int32(primary_key=True, min=0)
    thought_text_id = dy.Int64(nullable=True)
    action_text_id = dy.Int64(nullable=True)
    observation_text_id = dy.Int64(nullable=True)
    tool = dy.String(nullable=True)
    #: A short code of the step's failure; null where the step worked.
    error_code = dy.String(nullable=True)
    #: `primary tag|secondary tag|tool|error code` (section 4.5); null where nothing is tagged.
    signature = dy.String(nullable=True)
    #: The share of the reward that the trace takes directly, where it brings its own.
    alpha = dy.Float64(nullable=True, min=0, max=1)
