"""Simulated trials: the scripted agent at the tasks of families that are really done on data.

An execution is shared by all lanes that see the same task, seed, packet and previous answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from harness.build import EXPECTED
from harness.errors import InputError
from harness.families import family_folders, load_families, read_json, read_text
from harness.faults import MATRIX
from harness.kit import DEFINITION, Family, Files, load_definition, top_level
from harness.progress import progress
from harness.recording import Recording, remarks_of
from harness.scripted import Attempt, Reader, Traits, attempt, notes_of
from harness.verifiers import Check, verified
from memos_flow.library import Library
from memos_flow.schemas import (
    Arms,
    Checks,
    Executions,
    FaultMatrix,
    RemarkFaults,
    ShownFaults,
    Trajectories,
    Trials,
)
from memos_flow.step import World
from memos_flow.texts import content_id, texts_frame

ARM: Final = "scripted"
#: What a simulated trial depends on, beside the agent.
_SHARED: Final = ["family", "task", "seed", "packet_text_id", "previous_family", "previous_task"]
#: About four characters make a token.
_TOKEN_CHARACTERS: Final = 4


@dataclass(frozen=True)
class Embedded:
    """A family with everything that a simulated trial of it needs, read from its folder."""

    definition: Family
    files: Mapping[str, Files]
    expected: Mapping[str, Any]

    @classmethod
    def load(cls, folder: Path) -> "Embedded":
        """Raises InputError where the folder was not built, naming the file that is missing."""
        definition = load_definition(folder)
        return cls(
            definition,
            {task: _environment(folder / task) for task in definition.tasks},
            {task: _expected(folder / task) for task in definition.tasks},
        )


def _environment(task: Path) -> dict[str, str]:
    root = task / "environment"
    return {
        path.relative_to(root).as_posix(): read_text(path)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _expected(task: Path) -> Any:
    path = task / "tests" / EXPECTED
    if not path.is_file():
        raise InputError(
            path, "missing", hint=f"Write it with: memos-flow build family.path={task.parent}"
        )
    return read_json(path)


def is_simulated(root: Path) -> bool:
    """Whether every family below the folder has a definition that the scripted agent can run."""
    return all((folder / DEFINITION).is_file() for folder in family_folders(root).values())


def load_simulated(root: Path, only: list[str] | None) -> tuple[Recording, dict[str, Embedded]]:
    """The families without any trial yet, with their ground truth, and what it takes to run them.

    Raises InputError where a remark names a fault that does not break its task.
    """
    families = load_families(root, only)
    folders = {
        name: path
        for name, path in family_folders(root).items()
        if name in set(families.tasks["family"])
    }
    matrix = pl.concat([_matrix(name, path) for name, path in folders.items()])
    spoken = families.feedback.filter(pl.col("fault").is_not_null())
    unknown = spoken.join(matrix, on=["family", "task", "fault"], how="anti")
    if not unknown.is_empty():
        row = unknown.row(0, named=True)
        raise InputError(
            folders[row["family"]] / "feedback.jsonl",
            "the fault breaks no check of the task",
            field=f"fault, task {row['task']}",
            found=row["fault"],
            expected=f"a fault of {MATRIX}, or null",
        )
    recording = Recording(
        arms=Arms.validate(
            pl.DataFrame(
                {
                    "arm_id": [ARM],
                    "agent": [ARM],
                    "model": [None],
                    "setting": [None],
                    "simulated": [True],
                    "observational": [False],
                    "deterministic": [True],
                },
                schema=dict(Arms.create_empty().schema),
            )
        ),
        tasks=families.tasks,
        executions=Executions.create_empty(),
        checks=Checks.create_empty(),
        trajectories=Trajectories.create_empty(),
        texts=families.texts,
        feedback=families.feedback,
        findings=families.findings,
        fault_matrix=matrix,
        remark_faults=RemarkFaults.cast(
            spoken.select(RemarkFaults.column_names()).unique(maintain_order=True)
        ),
    )
    return recording, {name: Embedded.load(path) for name, path in folders.items()}


def _matrix(family: str, folder: Path) -> pl.DataFrame:
    path = folder / MATRIX
    if not path.is_file():
        raise InputError(
            path, "missing", hint=f"Measure it with: memos-flow build family.path={folder}"
        )
    rows = [
        {
            "family": family,
            "task": task,
            "fault": fault,
            "check_kind": check["kind"],
            "field": check["field"] or "",
        }
        for task, faults in read_json(path).items()
        for fault, checks in faults.items()
        for check in checks
    ]
    schema = dict(FaultMatrix.create_empty().schema)
    return FaultMatrix.validate(pl.DataFrame(rows, schema=schema).unique(maintain_order=True))


class Simulation:
    """Runs the trials of a step: once per distinct task, seed, packet and previous answer."""

    def __init__(
        self,
        recording: Recording,
        embedded: Mapping[str, Embedded],
        lanes: pl.DataFrame,
        itinerary: pl.DataFrame,
        library: Library,
        traits: Traits,
        reader: Reader,
    ) -> None:
        self._embedded = embedded
        self._library = library
        self._traits = traits
        self._reader = reader
        self._feedback = recording.feedback
        self._itinerary = itinerary
        self._seeds = lanes.select("lane_id", "seed")
        self._before = itinerary.select(
            "lane_id", pl.col("step") + 1, previous_family="family", previous_task="task"
        )
        self._lived = Trials.create_empty().select("lane_id", "step", "execution_id")
        self._shown: pl.DataFrame = ShownFaults.create_empty()
        self._stored = 0

    def restore(self, trials: pl.DataFrame, shown: pl.DataFrame) -> None:
        """Take over what an earlier run did: which lane lived what, and which faults showed."""
        self._lived = trials.select("lane_id", "step", "execution_id")
        self._shown = shown
        self._stored = shown.height

    def drain(self) -> dict[str, pl.DataFrame]:
        """The faults that showed since the last call: what a commit appends."""
        new = self._shown.slice(self._stored)
        self._stored = self._shown.height
        return {"shown_faults": new}

    def __call__(self, starts: pl.DataFrame, packets: pl.DataFrame) -> World:
        """The trials of the tasks that start now, and what people say about earlier ones."""
        keyed = (
            starts.select("lane_id", "step", "family", "task", "task_index")
            .join(self._seeds, on="lane_id", how="left")
            .join(packets.select("lane_id", packet_text_id="text_id"), on="lane_id", how="left")
            .join(self._before, on=["lane_id", "step"], how="left")
            .sort("lane_id")
        )
        distinct = keyed.select(_SHARED).unique(maintain_order=True)
        ids = [content_id(ARM, *row) for row in distinct.iter_rows()]
        distinct = distinct.with_columns(execution_id=pl.Series(ids, dtype=pl.Int64))
        world = self._executed(distinct)
        trials = (
            keyed.join(distinct, on=_SHARED, how="left", nulls_equal=True)
            .join(
                world.executions.select("execution_id", "status", "reward", "passed"),
                on="execution_id",
                how="left",
            )
            .select(Trials.column_names())
            .sort("lane_id", "step")
        )
        lived = trials.select("lane_id", "step", "execution_id")
        self._lived = pl.concat([self._lived, lived])
        return World(
            trials=Trials.cast(trials),
            executions=world.executions,
            checks=world.checks,
            trajectories=world.trajectories,
            remarks=self._remarks(starts),
        )

    def _executed(self, distinct: pl.DataFrame) -> World:
        packets = self._library.texts.join(
            distinct.lazy().select(text_id="packet_text_id").drop_nulls().unique(),
            on="text_id",
            how="semi",
        )
        texts: dict[int, str] = dict(packets.collect(engine="in-memory").iter_rows())
        self._reader.learn(note.text for packet in texts.values() for note in notes_of(packet))
        said: dict[str, None] = {}
        rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("executions", "checks", "trajectories", "shown")
        }
        for row in progress(
            distinct.iter_rows(named=True), total=distinct.height, description="trials"
        ):
            packet = texts.get(row["packet_text_id"], "")
            tried, checks = self._tried(row, packet)
            instruction = self._embedded[row["family"]].definition.tasks[row["task"]].instruction
            rows["executions"].append(_execution(row, checks, instruction + packet, tried))
            rows["checks"] += _check_rows(row["execution_id"], checks)
            rows["trajectories"] += _traces(row["execution_id"], tried, said)
            rows["shown"] += [
                {
                    "execution_id": row["execution_id"],
                    "fault": fault,
                    "misled": fault in tried.misled,
                }
                for fault in tried.faults
            ]
        self._library.add(texts_frame(said))
        shown = pl.DataFrame(rows["shown"], schema=dict(ShownFaults.create_empty().schema))
        self._shown = pl.concat([self._shown, shown]).unique(maintain_order=True)
        return World(
            trials=Trials.create_empty(),
            executions=Executions.validate(_frame(Executions, rows["executions"])),
            checks=Checks.validate(_frame(Checks, rows["checks"])),
            trajectories=Trajectories.validate(_frame(Trajectories, rows["trajectories"])),
            remarks=pl.DataFrame(),
        )

    def _tried(self, row: Mapping[str, Any], packet: str) -> tuple[Attempt, list[Check]]:
        own = self._embedded[row["family"]]
        names: list[str] = []
        if row["previous_task"] is not None:
            before = self._embedded[row["previous_family"]]
            names = top_level(before.expected[row["previous_task"]])
        tried = attempt(
            own.definition,
            row["task"],
            own.files[row["task"]],
            own.expected[row["task"]],
            packet,
            names,
            row["seed"],
            self._traits,
            self._reader,
        )
        about = own.definition.tasks[row["task"]]
        return tried, verified(
            about.output, tried.output, own.expected[row["task"]], about.tolerance
        )

    def _remarks(self, starts: pl.DataFrame) -> pl.DataFrame:
        """What people say after the tasks that start now; of a fault, only where it showed."""
        said = remarks_of(self._feedback, starts, self._itinerary).join(
            self._lived.rename({"step": "episode_step", "execution_id": "spoken_of"}),
            on=["lane_id", "episode_step"],
            how="inner",
            maintain_order="left",
        )
        showed = said.join(
            self._shown.rename({"execution_id": "spoken_of"}).with_columns(showed=True),
            on=["spoken_of", "fault"],
            how="left",
            maintain_order="left",
        )
        return showed.filter(pl.col("fault").is_null() | pl.col("showed")).drop(
            "fault", "spoken_of", "showed", "misled"
        )


def _frame(schema: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema.create_empty().schema))


def _execution(
    row: Mapping[str, Any], checks: list[Check], read: str, tried: Attempt
) -> dict[str, Any]:
    """Columns of schema Executions; tokens are estimated from characters."""
    passed = sum(check.passed for check in checks)
    return {
        "execution_id": row["execution_id"],
        "arm_id": ARM,
        "family": row["family"],
        "task": row["task"],
        "seed": row["seed"],
        "packet_text_id": row["packet_text_id"],
        "status": "scored",
        "reward": float(passed == len(checks)),
        "passed": passed == len(checks),
        "checks_passed": passed,
        "checks_total": len(checks),
        "has_verifier_output": True,
        "verifier_suspect": False,
        "tokens_input": len(read) // _TOKEN_CHARACTERS,
        "tokens_output": (len(tried.output) + sum(map(len, tried.steps))) // _TOKEN_CHARACTERS,
    }


def _check_rows(execution_id: int, checks: list[Check]) -> list[dict[str, Any]]:
    return [
        {
            "execution_id": execution_id,
            "check_index": index,
            "name": check.field or "output",
            "check_key": check.field or "output",
            "passed": check.passed,
            "kind": check.kind,
            "field": check.field,
            "expected": check.expected,
            "actual": check.actual,
            "relative_error": check.relative_error,
        }
        for index, check in enumerate(checks)
    ]


def _traces(execution_id: int, tried: Attempt, said: dict[str, None]) -> list[dict[str, Any]]:
    """One trace per step of the task, in order."""
    said |= dict.fromkeys(tried.steps)
    return [
        {
            "execution_id": execution_id,
            "position": position,
            "action_text_id": content_id(step),
            "tool": "python",
        }
        for position, step in enumerate(tried.steps)
    ]
