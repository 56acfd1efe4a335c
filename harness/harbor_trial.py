"""One Harbor trial folder: whose trial it was, what it scored, what its checks say."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

import dataframely as dy
import polars as pl

from harness.assertions import Difference, differences, said, statement
from harness.families import masked
from harness.findings import Finding
from harness.payload import finite, parsed, reward_of
from harness.pytest_output import Outcome, failure_of_trace, outcome_of
from harness.trajectories import trajectory_rows
from memos_flow.schemas import Checks, Executions, Trajectories
from memos_flow.schemas.executions import FULL_PASS
from memos_flow.texts import content_id, texts_frame

TRIALS: Final = {
    **Executions.create_empty().schema,
    "agent": pl.String(),
    "model": pl.String(),
}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: Folders inside a job that tell rounds, workers, shards or times, not another arm.
_INSIDE_A_JOB = re.compile(
    r"(?i)^(?:round|worker|shard|batch|part|attempt|run|iter|epoch)[-_]?\d+$"
    r"|^\d{4}-\d{2}-\d{2}(?:[T_-]{1,2}\d{2}[-:_]?\d{2}(?:[-:_]?\d{2})?)?$"
)
_VERIFIER_FAULT = re.compile(r"(?i)verifier|reward")
_AGENT_TIMEOUT = re.compile(r"(?i)agent.*timeout|timeout.*agent")
_AGENT_FAULT = re.compile(r"(?i)agent|nonzeroexit|apierror|ratelimit|contextlength|outputlength")


@dataclass(frozen=True)
class TrialRows:
    """What trial folders hold. `trials`: the columns of schema Executions, `agent` and `model`;
    `checks`, `trajectories` and `texts` of the schemas of that name, texts more than once."""

    trials: pl.DataFrame
    checks: pl.DataFrame
    trajectories: pl.DataFrame
    texts: pl.DataFrame
    findings: list[Finding]


#: The families that hold a task of a name.
Holding = Mapping[str, Collection[str]]


@dataclass
class _Trial:
    """One trial folder as read, before it is placed in an arm and a family."""

    path: str
    result: Mapping[str, Any]
    verifier: Mapping[str, str]
    exception: str | None
    trajectory: Any
    findings: list[Finding] = field(default_factory=list)


@dataclass
class _Placed:
    """A trial with its place in the run."""

    trial: _Trial
    arm: str
    family: str
    task: str
    started_at: datetime | None
    status: str
    reward: float | None


def read_trials(root: Path, folders: Sequence[Path], holding: Holding | None) -> TrialRows:
    """The rows of the trials in `folders`, below `root`. `holding`: null where no families are
    known. Nothing else of a folder is kept, so that memory does not grow with its logs."""
    texts: dict[str, None] = {}
    trials, checks, trajectories, findings = [], [], [], []
    for folder in folders:
        placed = _place(_read(root, folder), holding)
        trial = placed.trial
        execution_id = content_id(placed.arm, placed.family, placed.task, 0, trial.path)
        rows, outcome = _checks(placed, execution_id)
        trials.append(_execution(placed, execution_id, rows, outcome))
        checks += rows
        trajectories += trajectory_rows(trial.trajectory, execution_id, texts)
        findings += [*trial.findings, *_oddities(placed, rows, outcome)]
    return TrialRows(
        trials=pl.DataFrame(trials, schema=TRIALS),
        checks=_frame(Checks, checks),
        trajectories=_frame(Trajectories, trajectories),
        texts=texts_frame(texts),
        findings=findings,
    )


def _frame(schema: type[dy.Schema], rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema.create_empty().schema))


def _read(root: Path, folder: Path) -> _Trial:
    path = folder.relative_to(root).as_posix() if folder != root else folder.resolve().name
    findings: list[Finding] = []
    result = _json_of(folder / "result.json", path, findings)
    names = ("ctrf.json", "test-stdout.txt", "reward.txt", "reward.json")
    verifier = {
        name: (folder / "verifier" / name).read_text(encoding="utf-8", errors="replace")
        for name in names
        if (folder / "verifier" / name).is_file()
    }
    exception = folder / "exception.txt"
    return _Trial(
        path=path,
        result=result if isinstance(result, dict) else {},
        verifier=verifier,
        exception=exception.read_text(errors="replace") if exception.is_file() else None,
        trajectory=_json_of(folder / "agent" / "trajectory.json", path, findings, needed=False),
        findings=findings,
    )


def _json_of(file: Path, path: str, findings: list[Finding], *, needed: bool = True) -> Any:
    if not file.is_file():
        if needed:
            findings.append(Finding(path, "warning", f"no {file.name}"))
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except json.JSONDecodeError as error:
        findings.append(
            Finding(path, "error", f"{file.name}:{error.lineno} is not JSON ({error.msg})")
        )
        return None


# Where a trial belongs.


def _place(trial: _Trial, holding: Holding | None) -> _Placed:
    folders = PurePosixPath(trial.path).parts
    parents = [part for part in folders[:-1] if not _INSIDE_A_JOB.match(part)]
    task = _task_name(trial, folders[-1], set(holding or ()))
    family = _family_name(trial, task, parents, holding)
    arm = "/".join(part for part in parents if part != family) or _agent_label(trial)
    status, reward = _status(trial)
    return _Placed(trial, arm, family, task, _time(trial.result.get("started_at")), status, reward)


def _task_name(trial: _Trial, folder: str, known: set[str]) -> str:
    """The first name that the families know, from the task's path or name to the trial's own.

    The trial's own name is cut short, so it may stand for the one known task that starts with it.
    A log may have been redacted, so no single place is believed alone.
    """
    result = trial.result
    task_id, config_task = result.get("task_id"), _at(result, "config", "task")
    told = [
        _at(config_task, "path"),
        _at(task_id, "path"),
        _at(task_id, "name"),
        _at(config_task, "name"),
        result.get("task_name"),
        task_id,
    ]
    names = [
        re.split(r"[\\/]", name.strip("/\\ "))[-1]
        for name in told
        if isinstance(name, str) and name.strip("/\\ ")
    ]
    for name in names:
        if name in known:
            return name
    short = str(result.get("trial_name") or folder).rsplit("__", 1)[0]
    starting = [name for name in known if name.startswith(short)]
    if len(starting) == 1:
        return starting[0]
    return names[0] if names else short


def _family_name(trial: _Trial, task: str, parents: Sequence[str], holding: Holding | None) -> str:
    source = trial.result.get("source") or _at(trial.result, "config", "task", "source")
    source = source if isinstance(source, str) and source else None
    if holding is None:
        return source or (parents[-1] if parents else "trials")
    names = {name for families in holding.values() for name in families}
    if source in names:
        return str(source)
    for part in reversed(parents):
        if part in names:
            return part
    families = list(holding.get(task, ()))
    if len(families) == 1:
        return families[0]
    return source or (parents[-1] if parents else "trials")


def _agent_label(trial: _Trial) -> str:
    return "/".join(part for part in (_agent(trial), _model(trial)) if part)


def _agent(trial: _Trial) -> str:
    name = _at(trial.result, "agent_info", "name") or _at(trial.trajectory, "agent", "name")
    return _ANSI.sub("", str(name)).strip() if name else "unknown-agent"


def _model(trial: _Trial) -> str | None:
    model = (
        _at(trial.result, "config", "agent", "model_name")
        or _at(trial.result, "agent_info", "model_info", "name")
        or _at(trial.trajectory, "agent", "model_name")
    )
    return _ANSI.sub("", str(model)).strip() if model else None


# What a trial scored.


def _status(trial: _Trial) -> tuple[str, float | None]:
    """A recorded reward always counts; without one, whose fault was it?"""
    reward = _reward(trial)
    if reward is not None:
        return "scored", reward
    exception = _at(trial.result, "exception_info", "exception_type") or trial.exception
    if not exception:
        return ("verifier_error" if trial.result or trial.verifier else "not_run"), None
    told = str(exception)
    if _AGENT_TIMEOUT.search(told):
        return "agent_timeout", 0.0
    if not _VERIFIER_FAULT.search(told) and _AGENT_FAULT.search(told):
        return "agent_error", 0.0
    trial.findings.append(Finding(trial.path, "warning", f"unscored: {told.splitlines()[0][:120]}"))
    return "verifier_error", None


def _reward(trial: _Trial) -> float | None:
    """The result's rewards, else reward.json, else reward.txt.

    Of several keys `reward` counts, else the only one, else all must be full: then 1, else 0.
    """
    sources: dict[str, float | None] = {
        "result.json": reward_of(_at(trial.result, "verifier_result", "rewards")),
        "step_results": _of_steps(trial.result.get("step_results")),
        "reward.json": reward_of(parsed(trial.verifier.get("reward.json"))),
        "reward.txt": finite(trial.verifier.get("reward.txt")),
    }
    told = {name: reward for name, reward in sources.items() if reward is not None}
    if len(set(told.values())) > 1:
        trial.findings.append(Finding(trial.path, "warning", f"rewards disagree: {told}"))
    return next(iter(told.values()), None)


def _of_steps(steps: Any) -> float | None:
    """A trial of several steps passed if its last one did."""
    if not isinstance(steps, list) or not steps:
        return None
    return reward_of(_at(steps[-1], "verifier_result", "rewards"))


# Its rows.


def _execution(
    placed: _Placed, execution_id: int, rows: list[dict[str, Any]], outcome: Outcome
) -> dict[str, Any]:
    trial, reward = placed.trial, placed.reward
    usage = trial.result.get("agent_result") or {}
    counted = outcome.passed_count + outcome.failed_count
    tokens = {name: _count(_at(usage, f"n_{name}_tokens")) for name in ("input", "cache", "output")}
    return {
        "execution_id": execution_id,
        "arm_id": placed.arm,
        "family": placed.family,
        "task": placed.task,
        "seed": 0,
        "status": placed.status,
        "reward": reward,
        "passed": None if reward is None else reward >= FULL_PASS,
        "checks_passed": outcome.passed_count if counted else None,
        "checks_total": counted or None,
        "has_verifier_output": bool({"ctrf.json", "test-stdout.txt"} & set(trial.verifier)),
        "verifier_suspect": _suspect(rows, outcome),
        "error_type": _at(trial.result, "exception_info", "exception_type"),
        "tokens_input": tokens["input"],
        "tokens_output": tokens["output"],
        "tokens_cache": tokens["cache"],
        "cost_usd": _cost(_at(usage, "cost_usd")),
        "started_at": placed.started_at,
        "finished_at": _time(trial.result.get("finished_at")),
        "recorded_path": trial.path,
        "agent": _agent(trial),
        "model": _model(trial),
    }


def _checks(placed: _Placed, execution_id: int) -> tuple[list[dict[str, Any]], Outcome]:
    """The rows of schema Checks, from the CTRF report where there is one, else from the log."""
    outcome, outer = _verifier_outcome(placed.trial)
    own_ids = [placed.family, placed.task]
    rows = [_check_row(execution_id, name, None, own_ids) for name in outcome.passed]
    for failure in outcome.failures:
        rows += [
            _check_row(execution_id, failure.name, difference, own_ids)
            for difference in differences(failure)
        ]
    for text in outcome.exits:
        rows += [
            _check_row(execution_id, outer, difference, own_ids)
            for difference in said(text.removeprefix("FAIL:").strip())
        ]
    if outcome.crashed and not outcome.exits:
        rows.append(_check_row(execution_id, outer, Difference("other"), own_ids))
    for index, row in enumerate(rows):
        row["check_index"] = index
    return rows, outcome


def _verifier_outcome(trial: _Trial) -> tuple[Outcome, str]:
    """What the verifier's output tells, and the name of its first test."""
    tests = _at(parsed(trial.verifier.get("ctrf.json")), "results", "tests")
    if not isinstance(tests, list) or not tests:
        outcome = outcome_of(trial.verifier.get("test-stdout.txt", ""))
        return outcome, "verifier"
    total = Outcome()
    for test in tests:
        if not isinstance(test, dict):
            continue
        name = str(test.get("name") or "test")
        if test.get("status") == "passed":
            total.passed.append(name)
            total.passed_count += 1
        elif test.get("status") == "failed":
            inner = failure_of_trace(name, str(test.get("trace") or test.get("message") or ""))
            total.failures += inner.failures
            total.passed += inner.passed
            total.exits += inner.exits
            total.crashed |= inner.crashed
            total.passed_count += inner.passed_count
            total.failed_count += max(inner.failed_count, len(inner.failures), 1)
    return total, str(tests[0].get("name") or "test") if isinstance(tests[0], dict) else "test"


def _check_row(
    execution_id: int, name: str, difference: Difference | None, own_ids: Sequence[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "execution_id": execution_id,
        "name": name,
        "check_key": check_key(name),
        "passed": difference is None,
        "kind": None,
        "field": None,
        "expected": None,
        "actual": None,
        "relative_error": None,
        "message": None,
        "statement": None,
        "suspect": False,
    }
    if difference is None:
        return row
    told = {key: value for key, value in vars(difference).items() if key in row}
    # A field that is named for the task would give its id away to what is indexed.
    if difference.field and masked(f"/{difference.field}/", own_ids) != f"/{difference.field}/":
        told["field"] = None
    if not difference.suspect:
        told["statement"] = _unnamed(statement(difference.message), own_ids)
    return row | told


def _unnamed(text: str | None, own_ids: Sequence[str]) -> str | None:
    return None if text is None else masked(text, own_ids)


def _suspect(rows: list[dict[str, Any]], outcome: Outcome) -> bool:
    """The verifier's own log shows that it broke down."""
    return outcome.crashed or any(row["suspect"] for row in rows)


def check_key(name: str) -> str:
    """The name without file, class, parameters and numbers: the same check elsewhere."""
    bare = re.sub(r"\[.*\]$", "", name.split("::")[-1].rsplit(".", 1)[-1].strip().lower())
    return re.sub(r"_{2,}", "_", re.sub(r"\d+", "", bare)).strip("_") or name.lower()


def _oddities(placed: _Placed, rows: list[dict[str, Any]], outcome: Outcome) -> Iterable[Finding]:
    """What a reader of this recording should know about the trial."""
    trial = placed.trial
    if _suspect(rows, outcome):
        yield Finding(trial.path, "warning", "the verifier's log shows a crash of its own")
    if placed.reward is not None and placed.reward < FULL_PASS and not rows:
        yield Finding(trial.path, "note", "failed without any check in its verifier's output")
    if placed.status == "scored" and trial.exception:
        yield Finding(trial.path, "note", "scored although it has an exception.txt")
    usage = trial.result.get("agent_result") or {}
    given, cached = (_count(_at(usage, f"n_{name}_tokens")) for name in ("input", "cache"))
    if given is not None and cached is not None and cached > given:
        yield Finding(trial.path, "note", f"{cached} cached tokens of {given} input tokens")
    if _at(trial.result, "started_at") and "Z" not in str(trial.result["started_at"]):
        yield Finding(trial.path, "note", "times without a time zone are taken as UTC")


# Single values.


def _at(value: Any, *keys: str) -> Any:
    """The nested value, null where any step is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _count(value: Any) -> int | None:
    number = finite(value)
    return int(number) if number is not None and number >= 0 else None


def _cost(value: Any) -> float | None:
    number = finite(value)
    return number if number is not None and number >= 0 else None


def _time(value: Any) -> datetime | None:
    """An ISO time; without a zone it is taken as UTC."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
