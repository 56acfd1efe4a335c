"""Which experiences of a memory are worth comparing with a text, where a memory is large."""

from typing import Protocol

import polars as pl


class Shortlist(Protocol):
    """Every experience of a lane, or of a very large one those that are near."""

    def for_recall(self, policies: pl.LazyFrame, queries: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of `policies` (schema Policies) for the queries of this step: `lane_id`, `step`,
        `text_id` (null: nothing is near) and `weight`, how much the task it was learned in
        counts. Comes before `for_matching` in a step."""

    def for_matching(self, policies: pl.LazyFrame, lessons: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of `policies` that may be the same lesson as one of `lessons`: `lane_id`, `step`,
        `lesson_text_id`, `check_kind`, `field`."""

    def approximate(self) -> pl.LazyFrame:
        """`lane_id` of the lanes of which not every experience is looked at."""


class Everything:
    """No shortlist: every experience is compared."""

    def for_recall(self, policies: pl.LazyFrame, queries: pl.LazyFrame) -> pl.LazyFrame:
        """All of them."""
        return policies

    def for_matching(self, policies: pl.LazyFrame, lessons: pl.LazyFrame) -> pl.LazyFrame:
        """All of them."""
        return policies

    def approximate(self) -> pl.LazyFrame:
        """No lane."""
        return pl.LazyFrame(schema={"lane_id": pl.Int64})
