"""Section 10: Harbor folders of many versions, each oddity once."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InputError
from harness.harbor import load_harbor
from harness.harbor_trial import check_key
from harness.recording import Recording


def _trial(root: Path, path: str, result: dict[str, Any] | None = None, **files: str) -> Path:
    folder = root / path
    folder.mkdir(parents=True)
    task = path.rsplit("/", 1)[-1].rsplit("__", 1)[0]
    content = {"task_name": task, "trial_name": f"{task}__x"} | (result or {})
    (folder / "result.json").write_text(json.dumps(content))
    for name, text in files.items():
        file = folder / name.replace("_slash_", "/").replace("_dot_", ".").replace("_", "-")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return folder


def _rewards(**rewards: float) -> dict[str, Any]:
    return {"verifier_result": {"rewards": rewards}}


def _families(root: Path, *tasks: str) -> Path:
    for task in tasks:
        (root / "families" / task).mkdir(parents=True)
        (root / "families" / task / "instruction.md").write_text(f"Do the work of {task}.")
    return root / "families"


def _only(recording: Recording) -> dict[str, Any]:
    assert recording.executions.height == 1
    return recording.executions.row(0, named=True)


def test_arms_are_the_path_without_the_family_and_families_are_ranked(tmp_path: Path) -> None:
    families = _families(tmp_path, "fam/b-task", "fam/a-task", "fam/c-task")
    ranking = families / "fam" / "ALL_TASK_DIFFICULTY_RANKING.json"
    ranking.write_text('["b-task", "a-task"]')
    _trial(tmp_path / "jobs", "one/model-x/fam/b-task__1", _rewards(reward=1.0))
    recording = load_harbor(tmp_path / "jobs", families)
    assert recording.arms["arm_id"].to_list() == ["one/model-x"]
    assert recording.tasks.sort("task_index")["task"].to_list() == ["b-task", "a-task", "c-task"]


def test_rounds_workers_and_times_split_no_arm(tmp_path: Path) -> None:
    for path in (
        "job/round_001/worker_1/a__1",
        "job/round_002/b__1",
        "job/2026-01-02__03-04-05/c__1",
    ):
        _trial(tmp_path, path, _rewards(reward=0.0) | {"source": "fam"})
    assert load_harbor(tmp_path, None).arms["arm_id"].to_list() == ["job"]


@pytest.mark.parametrize(
    ("rewards", "passed"),
    [
        ({"reward": 1.0, "style": 0.0}, True),
        ({"accuracy": 1.0}, True),
        ({"accuracy": 1.0, "style": 0.5}, False),
        ({"accuracy": 1.0, "style": 1.0}, True),
        ({"reward": 0.9999}, False),
        ({"reward": 0.9999999999}, True),
    ],
)
def test_of_several_rewards_the_reward_counts_else_all(
    tmp_path: Path, rewards: dict[str, float], passed: bool
) -> None:
    _trial(tmp_path, "job/a__1", _rewards(**rewards))
    assert _only(load_harbor(tmp_path, None))["passed"] is passed


@pytest.mark.parametrize(
    ("exception", "status", "reward"),
    [
        ("AgentTimeoutError", "agent_timeout", 0.0),
        ("NonZeroAgentExitCodeError", "agent_error", 0.0),
        ("VerifierTimeoutError", "verifier_error", None),
        ("RewardFileNotFoundError", "verifier_error", None),
        ("EnvironmentStartTimeoutError", "verifier_error", None),
    ],
)
def test_without_a_reward_it_is_asked_whose_fault_it_was(
    tmp_path: Path, exception: str, status: str, reward: float | None
) -> None:
    _trial(tmp_path, "job/a__1", {"exception_info": {"exception_type": exception}})
    row = _only(load_harbor(tmp_path, None))
    assert (row["status"], row["reward"]) == (status, reward)


def test_a_recorded_reward_counts_beside_an_exception(tmp_path: Path) -> None:
    _trial(tmp_path, "job/a__1", _rewards(reward=1.0), exception_dot_txt="AgentTimeoutError")
    recording = load_harbor(tmp_path, None)
    assert _only(recording)["status"] == "scored"
    assert any("exception.txt" in finding.message for finding in recording.findings)


def test_reward_files_are_read_and_a_disagreement_is_told(tmp_path: Path) -> None:
    files = {
        "verifier_slash_reward_dot_json": '{"reward": 1}',
        "verifier_slash_reward_dot_txt": "0",
    }
    _trial(tmp_path, "job/a__1", **files)
    recording = load_harbor(tmp_path, None)
    assert _only(recording)["reward"] == 1.0
    assert any("disagree" in finding.message for finding in recording.findings)


def test_not_a_number_is_no_reward(tmp_path: Path) -> None:
    _trial(tmp_path, "job/a__1", verifier_slash_reward_dot_txt="nan")
    assert _only(load_harbor(tmp_path, None))["reward"] is None


def test_a_second_attempt_is_no_second_sample(tmp_path: Path) -> None:
    _trial(tmp_path, "job/a__1", {"exception_info": {"exception_type": "VerifierError"}})
    _trial(tmp_path, "job/a__2", _rewards(reward=0.0) | {"started_at": "2026-01-01T00:00:00"})
    _trial(tmp_path, "job/a__3", _rewards(reward=1.0) | {"started_at": "2026-01-02T00:00:00"})
    recording = load_harbor(tmp_path, None)
    assert _only(recording)["recorded_path"] == "job/a__2"
    assert sum("extra attempt" in finding.message for finding in recording.findings) == 2


@pytest.mark.parametrize(
    "told",
    [
        {"config": {"task": {"path": "/data/fam/the-whole-name"}}},
        {"task_id": {"path": "C:\\work\\fam\\the-whole-name"}},
        {"task_id": {"org": "fam", "name": "the-whole-name"}},
        {"task_name": "org/the-whole-name"},
        {"task_id": {"path": "<REDACTED>"}, "trial_name": "the-whole__x"},
    ],
)
def test_the_task_is_found_wherever_a_version_keeps_it(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    families = _families(tmp_path, "fam/the-whole-name")
    _trial(
        tmp_path / "jobs", "job/the-whole__x", {"task_name": None, **told, **_rewards(reward=0.0)}
    )
    assert _only(load_harbor(tmp_path / "jobs", families))["task"] == "the-whole-name"


def test_a_task_name_of_two_families_goes_by_its_folder(tmp_path: Path) -> None:
    families = _families(tmp_path, "one/same", "two/same")
    _trial(tmp_path / "jobs", "job/two/same__1", _rewards(reward=1.0))
    assert _only(load_harbor(tmp_path / "jobs", families))["family"] == "two"


def test_a_broken_result_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    folder = tmp_path / "job" / "a__1" / "verifier"
    folder.mkdir(parents=True)
    (folder.parent / "result.json").write_text("{broken")
    (folder / "reward.txt").write_text("1")
    recording = load_harbor(tmp_path, None)
    assert _only(recording)["passed"] is True
    assert [finding.severity for finding in recording.findings] == ["error"]


def test_a_job_level_result_is_no_trial(tmp_path: Path) -> None:
    _trial(tmp_path, "job/a__1", _rewards(reward=0.0))
    (tmp_path / "job" / "result.json").write_text('{"n_total_trials": 1}')
    assert load_harbor(tmp_path, None).executions.height == 1


def test_a_link_that_leads_back_is_followed_once(tmp_path: Path) -> None:
    _trial(tmp_path, "job/a__1", _rewards(reward=0.0))
    (tmp_path / "job" / "again").symlink_to(tmp_path)
    assert load_harbor(tmp_path, None).executions.height == 1


def test_odd_token_counts_are_told(tmp_path: Path) -> None:
    usage = {"n_input_tokens": 5, "n_cache_tokens": 9, "n_output_tokens": None, "cost_usd": None}
    _trial(tmp_path, "job/a__1", _rewards(reward=0.0) | {"agent_result": usage})
    recording = load_harbor(tmp_path, None)
    assert (_only(recording)["tokens_input"], _only(recording)["tokens_output"]) == (5, None)
    assert any("9 cached tokens of 5" in finding.message for finding in recording.findings)


def test_a_field_named_for_its_task_is_not_kept(tmp_path: Path) -> None:
    trace = (
        ">       assert path.exists()\n"
        "E       FileNotFoundError: No such file: '/root/stock-gap.xlsx'"
    )
    files = _reported(status="failed", trace=trace)
    _trial(tmp_path, "job/stock-gap__1", _rewards(reward=0.0), **files)
    checks = load_harbor(tmp_path, None).checks
    assert checks.select("kind", "field").rows() == [("missing_output", None)]


def test_a_folder_without_trials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trial found"):
        load_harbor(tmp_path, None)


def test_a_trajectory_becomes_thought_action_and_observation(tmp_path: Path) -> None:
    folder = _trial(tmp_path, "job/a__1", _rewards(reward=1.0))
    step = {
        "source": "agent",
        "reasoning_content": "look",
        "tool_calls": [{"function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [{"content": "exit code: 2"}]},
    }
    (folder / "agent").mkdir()
    (folder / "agent" / "trajectory.json").write_text(json.dumps({"steps": [step]}))
    recording = load_harbor(tmp_path, None)
    row = recording.trajectories.row(0, named=True)
    texts = dict(recording.texts.iter_rows())
    assert (texts[row["action_text_id"]], row["tool"], row["error_code"]) == (
        "bash: ls",
        "bash",
        "exit 2",
    )


def test_the_same_check_in_another_task_has_the_same_key() -> None:
    names = ["tests/test_a.py::test_row_3[x-1]", "TestTable.test_row_12", "test_row"]
    assert {check_key(name) for name in names} == {"test_row"}


def _reported(*, status: str, trace: str = "") -> dict[str, str]:
    test = {"name": "test_it", "status": status, "trace": trace}
    return {"verifier_slash_ctrf_dot_json": json.dumps({"results": {"tests": [test]}})}


def _numbered(root: Path, number: int) -> None:
    trace = f"E       AssertionError: column_{number}: expected {number}, got 0"
    passed, failed = _reported(status="passed"), _reported(status="failed", trace=trace)
    files = passed if number % 2 else failed
    _trial(root, f"job/fam/t{number}__1", _rewards(reward=float(number % 2)), **files)


def _same(first: Recording, second: Recording) -> bool:
    tables = ("arms", "tasks", "executions", "checks", "trajectories", "texts")
    same = [getattr(first, name).equals(getattr(second, name)) for name in tables]
    return all(same) and first.findings == second.findings


def test_the_import_depends_neither_on_order_nor_on_processes(tmp_path: Path) -> None:
    for number in range(120):
        _numbered(tmp_path / "first", number)
    for number in reversed(range(120)):
        _numbered(tmp_path / "second", number)
    alone = load_harbor(tmp_path / "first", None)
    assert alone.executions.height == 120
    assert alone.checks["message"].n_unique() > 60
    assert _same(alone, load_harbor(tmp_path / "second", None))
    assert _same(alone, load_harbor(tmp_path / "first", None, alone_up_to=0))


def test_logs_are_let_go_once_they_are_read(tmp_path: Path) -> None:
    trials, log = 20, f"{'a line ' * 1_000}\n" * 150
    for number in range(trials):
        _trial(tmp_path, f"job/t{number}__1", verifier_slash_test_stdout_dot_txt=log)
    tracemalloc.start()
    try:
        load_harbor(tmp_path, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < trials * len(log) / 4
