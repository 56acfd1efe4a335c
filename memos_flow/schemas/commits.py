"""The last row of a step: what carries another commit id is not there."""

import dataframely as dy


class Commits(dy.Schema):
    """One row per finished (shard, step)."""

    commit_id = dy.Int64(primary_key=True)
    shard = dy.Int32(min=0)
    #: -1 for the set-up rows (arms, tasks, variants, lanes) that precede the first step.
    step = dy.Int32(min=-1)
    lanes = dy.Int64(min=0)
    schema_version = dy.Int32(min=1)
