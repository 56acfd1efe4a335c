"""One lane that lives through steps whose outcomes, checks, actions and remarks are given."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from harness.embedders import HashingEmbedder
from harness.lexicons import load_lexicon
from memos_flow.library import Library
from memos_flow.memory import Memory
from memos_flow.schemas import Checks, Executions, Policies, Trajectories, Trials
from memos_flow.schemas.vocabulary import PACKET_SECTIONS
from memos_flow.shortlist import Everything, Shortlist
from memos_flow.step import World, take_step
from memos_flow.texts import content_id, texts_frame
from memos_flow.wording import Wording
from tests.conftest import CONF
from tests.frames import frame

_LEXICON = load_lexicon(CONF / "lexicon")
_QUERY = "Sum the holdings by cusip and write answers.json"

Remark = Mapping[str, Any]


class Lane:
    """One lane that lives through steps whose outcomes and remarks are given."""

    def __init__(
        self,
        wording: Wording,
        settings: pl.DataFrame,
        lanes: Sequence[int] = (1,),
        domain: str | None = None,
    ) -> None:
        embed = HashingEmbedder(dimensions=256, max_characters=2000).embed
        self.library = Library(embed, _LEXICON)
        self.wording, self.rules, self.lanes = wording, settings, lanes
        self.memory = Memory.empty(pl.Series(lanes, dtype=pl.Int64))
        self.shortlist: Shortlist = Everything()
        self.step = 0
        self.domain = domain
        self.library.add(texts_frame([_QUERY]))

    def live(
        self,
        passed: bool | None,
        remarks: Sequence[Remark] = (),
        checks: Sequence[Mapping[str, Any]] = (),
        actions: Sequence[str] = (),
    ) -> dict[str, pl.DataFrame]:
        """The tables of the next step."""
        self.library.add(texts_frame([*(remark["text"] for remark in remarks), *actions]))
        taken = take_step(
            self.memory,
            self._starts(self.step),
            pl.concat([self._starts(step) for step in range(self.step + 1)]),
            self.rules,
            _NO_CONTROLS,
            self.library,
            self.wording,
            self.shortlist,
            lambda starts, packets: self._world(passed, remarks, checks, actions),
        )
        self.memory = self.memory.after(taken)
        self.step += 1
        return taken.of_every_lane()

    @property
    def experiences(self) -> pl.DataFrame:
        learned = self.memory.learned
        every = learned.lanes.each(learned.policies)
        return Policies.validate(every).sort("lane_id", "policy_id")

    def _starts(self, step: int) -> pl.DataFrame:
        rows = [
            {
                "lane_id": lane,
                "step": step,
                "family": "family",
                "task": f"task {step}",
                "task_index": step,
                "query_text_id": content_id(_QUERY),
                "file_names": ["table.csv"],
                "domain": self.domain,
                "tool": None,
            }
            for lane in self.lanes
        ]
        types = {"step": pl.Int32, "task_index": pl.Int32, "domain": pl.String, "tool": pl.String}
        return pl.DataFrame(rows, schema_overrides=types)

    def told(self, tables: Mapping[str, pl.DataFrame], name: str = "packets") -> list[str]:
        """The texts that rows of a table point to."""
        texts = dict(self.library.texts.collect().iter_rows())
        return [texts[number] for number in tables[name]["text_id"].drop_nulls()]

    def _world(
        self,
        passed: bool | None,
        remarks: Sequence[Remark],
        checks: Sequence[Mapping[str, Any]],
        actions: Sequence[str],
    ) -> World:
        execution = self.step + 100
        rows = [
            {"execution_id": execution, "check_index": number, "passed": False} | check
            for number, check in enumerate(checks)
        ]
        steps = [
            {"execution_id": execution, "position": number, "action_text_id": content_id(action)}
            | {"tool": "python"}
            for number, action in enumerate(actions)
        ]
        status = "not_run" if passed is None else "scored"
        reward = None if passed is None else float(passed)
        outcome = {
            "status": status,
            "reward": reward,
            "passed": passed,
            "task": f"task {self.step}",
        }
        trials = [
            {"lane_id": lane, "step": self.step, "execution_id": self.step + 100} | outcome
            for lane in self.lanes
        ]
        said = [
            {
                "lane_id": lane,
                "step": self.step,
                "episode_step": remark.get("episode_step", self.step),
                "order": order,
                "source": "user",
                "channel": remark.get("channel", "explicit"),
                "polarity": remark.get("polarity", "neutral"),
                "magnitude": remark.get("magnitude", 0.9),
                "text_id": content_id(remark["text"]),
            }
            for lane in self.lanes
            for order, remark in enumerate(remarks)
        ]
        return World(
            trials=Trials.cast(frame(Trials, trials)),
            executions=Executions.cast(
                frame(Executions, [{"execution_id": self.step + 100} | outcome])
            ),
            checks=Checks.cast(frame(Checks, rows)),
            trajectories=Trajectories.cast(frame(Trajectories, steps)),
            remarks=pl.DataFrame(said, schema=_REMARK),
        )


_NO_CONTROLS = pl.DataFrame(
    schema={
        "control": pl.String,
        "family": pl.String,
        "task": pl.String,
        "order": pl.Int32,
        "section": pl.Enum(PACKET_SECTIONS),
        "text": pl.String,
    }
)
_REMARK = {
    "lane_id": pl.Int64,
    "step": pl.Int32,
    "episode_step": pl.Int32,
    "order": pl.UInt32,
    "source": pl.String,
    "channel": pl.String,
    "polarity": pl.String,
    "magnitude": pl.Float64,
    "text_id": pl.Int64,
    "outcome": pl.String,
    "verifier_severity": pl.Float64,
    "execution_id": pl.Int64,
}
