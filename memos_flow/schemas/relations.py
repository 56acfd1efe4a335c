"""Rules between tables: nothing refers to what is not there."""

import dataframely as dy
import polars as pl

from memos_flow.schemas.episodes import Episodes
from memos_flow.schemas.feedback import Feedback
from memos_flow.schemas.guidance import Guidance
from memos_flow.schemas.lanes import Lanes
from memos_flow.schemas.lessons import Lessons
from memos_flow.schemas.policies import Policies
from memos_flow.schemas.trials import Trials


class LaneRelations(dy.Collection):
    """A lane is valid only as a whole: each filter keeps the lanes without a dangling row."""

    lanes: dy.LazyFrame[Lanes]
    trials: dy.LazyFrame[Trials]
    episodes: dy.LazyFrame[Episodes]
    feedback: dy.LazyFrame[Feedback]
    lessons: dy.LazyFrame[Lessons]
    policies: dy.LazyFrame[Policies]
    guidance: dy.LazyFrame[Guidance]

    @dy.filter()
    def feedback_has_its_episode(self) -> pl.LazyFrame:
        return self._lanes_without(self.feedback, self.episodes, ["episode_step"])

    @dy.filter()
    def episode_has_its_trial(self) -> pl.LazyFrame:
        episodes = self.episodes.rename({"episode_step": "step"})
        return self._lanes_without(episodes, self.trials, ["step"])

    @dy.filter()
    def lesson_has_its_feedback(self) -> pl.LazyFrame:
        return self._lanes_without(self.lessons, self.feedback, ["feedback_id"])

    @dy.filter()
    def effect_has_its_experience(self) -> pl.LazyFrame:
        effects = self.lessons.filter(pl.col("policy_id").is_not_null())
        return self._lanes_without(effects, self.policies, ["policy_id"])

    @dy.filter()
    def guidance_has_its_experience(self) -> pl.LazyFrame:
        return self._lanes_without(self.guidance, self.policies, ["policy_id"])

    def _lanes_without(
        self, rows: pl.LazyFrame, referred: pl.LazyFrame, key: list[str]
    ) -> pl.LazyFrame:
        """The lanes of which every row of `rows` finds its `key` in `referred`."""
        dangling = rows.join(referred, on=["lane_id", *key], how="anti")
        return self.lanes.select("lane_id").join(dangling, on="lane_id", how="anti")
