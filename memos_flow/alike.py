"""Lanes that are alike: what is the same in several lanes is computed once.

A stage is a pure function of a lane's rows and of the settings it is given. Where all of these are
the same in several lanes, so is what it returns, but for the lane's id: one of the lanes stands for
all of them. A sweep of thousands of settings costs as many passes of a stage as there are different
cases of it.
"""

from typing import Self

import polars as pl

#: So few lanes are passed through a stage in less time than it takes to find out which are alike.
FEW = 100


class Alike:
    """Which lane stands for which: of lanes that are alike the one with the lowest id."""

    def __init__(self, lanes: pl.DataFrame) -> None:
        """`lanes`: `lane_id`, `like` (the lane that stands for it)."""
        #: `lane_id`, and `like`: the lane that stands for it.
        self.lanes = lanes.select("lane_id", "like")
        self._standing = self.lanes.filter(pl.col("lane_id") == pl.col("like"))
        #: Whether every lane stands for itself alone.
        self._alone = self._standing.height == self.lanes.height

    @classmethod
    def alone(cls, lane_ids: pl.Series) -> Self:
        """No lane stands for another."""
        return cls(pl.DataFrame({"lane_id": lane_ids, "like": lane_ids}))

    @classmethod
    def by(cls, *parts: "Alike | pl.DataFrame") -> Self:
        """The lanes of the first part; alike are those that are so in every part. Of a frame (one
        row per `lane_id`): those with equal values in all other columns."""
        frames = [part.lanes if isinstance(part, Alike) else part for part in parts]
        lanes = frames[0].select("lane_id")
        if lanes.height <= FEW:
            return cls.alone(lanes["lane_id"])
        for number, frame in enumerate(frames):
            values = frame.select("lane_id", pl.exclude("lane_id").name.prefix(f"{number} "))
            lanes = lanes.join(values, on="lane_id", how="left", maintain_order="left")
        return cls(_alike(lanes))

    def equal(self, *tables: pl.DataFrame) -> "Alike":
        """The same lanes; alike are those whose rows are equal, in whatever order, in each of
        `tables`, which hold rows of the lanes that stand here."""
        if self.lanes.height <= FEW:
            return self
        told = self._standing.select("lane_id")
        for number, table in enumerate(tables):
            others = [name for name in table.columns if name != "lane_id"]
            # Equal rows have the place of the first of them.
            rows = table.with_row_index("row").select("lane_id", pl.col("row").min().over(others))
            lists = rows.group_by("lane_id").agg(pl.col("row").sort().alias(f"rows {number}"))
            told = told.join(lists, on="lane_id", how="left")
        cases = _alike(told).rename({"lane_id": "like", "like": "case"})
        lanes = self.lanes.join(cases, on="like", how="inner", maintain_order="left")
        return Alike.by(lanes.select("lane_id", "case"))

    def rows(self, rows: pl.DataFrame, of: "Alike") -> pl.DataFrame:
        """The rows of the lanes that stand here, from those of the lanes that stand in `of`, where
        whatever is alike here is alike too."""
        if self._alone and self.lanes.height == of.lanes.height:
            return of.each(rows)
        return _taken(rows, of.lanes.join(self._standing, on="lane_id", how="semi"))

    def each(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of every lane, from those of the lanes that stand here."""
        return rows if self._alone else _taken(rows, self.lanes)


def _alike(lanes: pl.DataFrame) -> pl.DataFrame:
    """`lane_id`, `like`: the lowest lane with the same values."""
    values = [name for name in lanes.columns if name != "lane_id"]
    return lanes.select("lane_id", like=pl.col("lane_id").min().over(values))


def _taken(rows: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """For each lane the rows of the one that it is like, lanes in order."""
    return (
        lanes.sort("lane_id")
        .join(rows.rename({"lane_id": "like"}), on="like", how="inner", maintain_order="left_right")
        .select(rows.columns)
    )
