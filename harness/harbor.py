"""Harbor job folders of any version: a tree of trial folders, each with what its verifier left.

Nothing is dropped in silence: what cannot be used is a Finding, and a trial that can be told apart
but not scored stays, unscored.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import dataframely as dy
import polars as pl
import polars.selectors as cs

from harness.errors import InputError
from harness.families import Families, load_families
from harness.findings import Finding
from harness.harbor_trial import Holding, TrialRows, read_trials
from harness.progress import progress
from harness.recording import REMARKS, Recording
from memos_flow.schemas import Arms, Checks, Executions, Tasks, Trajectories
from memos_flow.texts import texts_frame

_FOLDERS_AT_ONCE = 50
#: Fewer folders are read sooner than other processes start.
_ALONE_UP_TO = 1_000
_TRIAL = ["arm_id", "family", "task"]


def load_harbor(
    root: Path,
    tasks_root: Path | None,
    families: Sequence[str] | None = None,
    alone_up_to: int = _ALONE_UP_TO,
) -> Recording:
    """The trials below `root`, one per (arm, family, task).

    An arm is the path from `root` to the trial without the family's folder and without folders that
    tell rounds, workers or times; where nothing is left, the agent and model. With `tasks_root` the
    families are planned as a whole, so that a task without a trial counts as not run. Of several
    trials of one task the earliest scored one counts; the others are findings, never extra samples.
    More than `alone_up_to` folders are read by a process per core. Raises InputError where `root`
    holds no trial.
    """
    folders = trial_folders(root)
    if not folders:
        raise InputError(
            root, "no trial found", expected="folders with result.json, verifier/ or agent/"
        )
    known = load_families(tasks_root, families) if tasks_root else None
    read = progress(
        _read(root, folders, _holding(known), alone=len(folders) <= alone_up_to),
        total=-(-len(folders) // _FOLDERS_AT_ONCE),
        description=f"trials, {_FOLDERS_AT_ONCE} at once",
    )
    rows = _together(list(read))
    if families:
        rows = _of_families(rows, families)
    return _recording(rows, known)


def trial_folders(root: Path) -> list[Path]:
    """Every trial folder below `root` (or `root` itself), sorted; trials are not nested."""
    if not root.is_dir():
        raise InputError(root, "no such folder", expected="a folder of recorded trials")
    found: list[Path] = []
    seen: set[Path] = set()
    pending = [root]
    while pending:
        folder = pending.pop()
        real = folder.resolve()
        if real in seen:
            # A symbolic link that leads back.
            continue
        seen.add(real)
        if _is_trial(folder):
            found.append(folder)
        else:
            pending += [child for child in folder.iterdir() if child.is_dir()]
    return sorted(found)


def _is_trial(folder: Path) -> bool:
    if (folder / "agent" / "trajectory.json").is_file() or (folder / "verifier").is_dir():
        return True
    result = folder / "result.json"
    if not result.is_file():
        return False
    try:
        content = json.loads(result.read_text(encoding="utf-8", errors="replace"))
    except (OSError, json.JSONDecodeError):
        # Broken, but nothing else than a trial or a job has such a file; jobs hold folders.
        return not any(child.is_dir() for child in folder.iterdir())
    return isinstance(content, dict) and ("trial_name" in content or "task_name" in content)


def _holding(known: Families | None) -> Holding | None:
    if known is None:
        return None
    holding = known.tasks.group_by("task").agg("family")
    return dict(zip(holding["task"], holding["family"].to_list(), strict=True))


def _read(
    root: Path, folders: Sequence[Path], holding: Holding | None, *, alone: bool
) -> Iterator[TrialRows]:
    """The rows of `_FOLDERS_AT_ONCE` folders at once, in the order of the folders."""
    starts = range(0, len(folders), _FOLDERS_AT_ONCE)
    parts = [folders[start : start + _FOLDERS_AT_ONCE] for start in starts]
    if alone:
        yield from (read_trials(root, part, holding) for part in parts)
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        yield from processes.map(read_trials, repeat(root), parts, repeat(holding))


def _together(parts: Sequence[TrialRows]) -> TrialRows:
    return TrialRows(
        trials=pl.concat([part.trials for part in parts]),
        checks=pl.concat([part.checks for part in parts]),
        trajectories=pl.concat([part.trajectories for part in parts]),
        texts=pl.concat([part.texts for part in parts]).unique("text_id"),
        findings=[finding for part in parts for finding in part.findings],
    )


def _of_families(rows: TrialRows, families: Sequence[str]) -> TrialRows:
    trials = rows.trials.filter(pl.col("family").is_in(families))
    told = set(trials["recorded_path"])
    findings = [finding for finding in rows.findings if finding.path in told]
    return replace(rows, trials=trials, findings=findings)


def _recording(rows: TrialRows, known: Families | None) -> Recording:
    first = _first_scored(rows.trials)
    tasks = known.tasks if known else _bare_tasks(first)
    people = known or Families(tasks, texts_frame(()), pl.DataFrame(schema=REMARKS))
    kept = first.join(tasks, on=["family", "task"], how="semi")
    trajectories = rows.trajectories.join(kept, on="execution_id", how="semi")
    findings = [
        *people.findings,
        *rows.findings,
        *_extra_attempts(rows.trials, first),
        *_unplanned(first, tasks),
    ]
    return Recording(
        arms=_arms(kept),
        tasks=tasks,
        executions=_table(Executions, kept),
        checks=_table(Checks, rows.checks.join(kept, on="execution_id", how="semi")),
        trajectories=_table(Trajectories, trajectories),
        texts=pl.concat([people.texts, _told(rows.texts, trajectories)])
        .unique("text_id")
        .sort("text_id"),
        feedback=people.feedback,
        findings=sorted(set(findings)),
    )


def _first_scored(trials: pl.DataFrame) -> pl.DataFrame:
    """One trial per arm and task: a scored one before others, then the earlier, then by path."""
    order = [pl.col("reward").is_null(), pl.col("started_at"), pl.col("recorded_path")]
    return trials.sort(order, nulls_last=True).unique(_TRIAL, keep="first", maintain_order=True)


def _extra_attempts(trials: pl.DataFrame, first: pl.DataFrame) -> list[Finding]:
    others = trials.join(first, on="execution_id", how="anti").join(
        first.select(*_TRIAL, counts="recorded_path"), on=_TRIAL
    )
    return [
        Finding(path, "warning", f"extra attempt at {task}: {counts} counts, this one does not")
        for path, task, counts in others.select("recorded_path", "task", "counts").iter_rows()
    ]


def _unplanned(first: pl.DataFrame, tasks: pl.DataFrame) -> list[Finding]:
    others = first.join(tasks, on=["family", "task"], how="anti")
    return [
        Finding(path, "error", f"no task {family}/{task}: left out")
        for path, family, task in others.select("recorded_path", "family", "task").iter_rows()
    ]


def _told(texts: pl.DataFrame, trajectories: pl.DataFrame) -> pl.DataFrame:
    """The texts of the trajectories."""
    ids = trajectories.select(cs.ends_with("_text_id")).unpivot(value_name="text_id")
    return texts.join(ids, on="text_id", how="semi")


def _table(schema: type[dy.Schema], rows: pl.DataFrame) -> pl.DataFrame:
    return schema.validate(rows.select(schema.column_names()).sort(schema.primary_key()))


def _arms(trials: pl.DataFrame) -> pl.DataFrame:
    """Every arm, with the agent and the model that most of its trials name."""
    arms = trials.group_by("arm_id").agg(
        pl.col(name).drop_nulls().mode().sort().first() for name in ("agent", "model")
    )
    return _table(
        Arms,
        arms.with_columns(
            setting=pl.col("arm_id").str.split("/").list.first(),
            simulated=False,
            observational=True,
            deterministic=True,
        ),
    )


def _bare_tasks(trials: pl.DataFrame) -> pl.DataFrame:
    """Without task folders: the tasks that trials name, by when the first of them started."""
    started = trials.group_by("family", "task").agg(pl.col("started_at").min())
    ordered = started.sort("family", "started_at", "task", nulls_last=True).select(
        "family",
        "task",
        task_index=pl.int_range(pl.len(), dtype=pl.Int32).over("family"),
        file_names=pl.lit([], pl.List(pl.String)),
    )
    return _table(Tasks, pl.concat([Tasks.create_empty(), ordered], how="diagonal"))
