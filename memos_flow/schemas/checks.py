"""The verifier's checks of an execution."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.vocabulary import CHECK_KINDS


class Checks(dy.Schema):
    """One row per check; expected and actual are evidence and never enter a lesson by default."""

    execution_id = dy.Int64(primary_key=True)
    check_index = dy.Int32(primary_key=True, min=0)
    name = dy.String(min_length=1)
    #: The name without parameters, paths and numbers: "the same check" in a later task.
    check_key = dy.String(min_length=1)
    passed = dy.Bool()
    kind = dy.Enum(CHECK_KINDS, nullable=True)
    #: A path with list indices replaced by `[]`; null where it cannot be known.
    field = dy.String(nullable=True, min_length=1)
    expected = dy.String(nullable=True)
    actual = dy.String(nullable=True)
    #: |actual - expected| / |expected|; 1 where expected is 0 and actual is not.
    relative_error = dy.Float64(nullable=True, min=0)
    message = dy.String(nullable=True)
    #: What the check's author wrote, without any value; null where only a program spoke.
    statement = dy.String(nullable=True, min_length=1)

    @dy.rule()
    def a_failing_check_has_a_kind(cls) -> pl.Expr:
        return pl.col("passed") == pl.col("kind").is_null()
