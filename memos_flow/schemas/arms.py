"""Where trials come from."""

import dataframely as dy
import polars as pl


class Arms(dy.Schema):
    """An agent configuration, or a recorded (setting, model)."""

    arm_id = dy.String(primary_key=True, min_length=1)
    agent = dy.String(min_length=1)
    model = dy.String(nullable=True)
    setting = dy.String(nullable=True)
    simulated = dy.Bool()
    #: Replayed trials: packets could not change the recorded outcome.
    observational = dy.Bool()
    #: Lanes that inject the same packet share one trial only of a deterministic agent.
    deterministic = dy.Bool()

    @dy.rule()
    def simulated_is_not_observational(cls) -> pl.Expr:
        return ~(pl.col("simulated") & pl.col("observational"))
