"""Section 3: one append per table and step, the commit last; killed attempts stay invisible."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from harness.canonical import canonical_hash, table_hashes
from harness.errors import StoreError
from harness.store import Store
from memos_flow.schemas import SCHEMA_VERSION, TABLES, Policies, Texts, Trials
from tests.frames import frame


def _hashes(store: Store) -> dict:
    return table_hashes({name: store.read(name) for name in TABLES})


def _trials(step: int, lanes: int = 3) -> pl.DataFrame:
    rows = [
        {"lane_id": lane, "step": step, "task": f"task {step}", "reward": 1.0, "passed": True}
        | {"status": "scored"}
        for lane in range(lanes)
    ]
    return Trials.validate(frame(Trials, rows))


def test_committed_rows_come_back_with_their_types(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "tables"))
    meta = {"family": "f", "task": "t", "check": None, "expected": "3", "actual": "4"}
    policies = frame(
        Policies,
        [
            {"lane_id": 1, "policy_id": 0, "source_feedback_ids": [1, 2], "verifier_meta": meta},
            {"lane_id": 1, "policy_id": 1, "source_feedback_ids": [], "file_names": ["a.json"]},
        ],
    )
    store.commit({"policies": policies}, shard=0, step=0, lanes=1)
    back = store.read("policies").sort("policy_id")
    assert back.schema == policies.schema
    assert back.equals(policies)


def test_a_table_nobody_wrote_is_empty_and_typed(tmp_path: Path) -> None:
    empty = Store.open(str(tmp_path / "tables")).read("trials")
    assert empty.is_empty()
    assert empty.schema == Trials.create_empty().schema


def test_content_tables_hold_a_row_once(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "tables"))
    texts = frame(Texts, [{"text_id": 1, "text": "same"}])
    store.commit({"texts": texts}, shard=0, step=0, lanes=1)
    store.commit({"texts": texts}, shard=1, step=0, lanes=1)
    assert store.read("texts").height == 1


def test_rows_without_their_commit_are_invisible_and_swept(tmp_path: Path) -> None:
    uri = str(tmp_path / "tables")
    store = Store.open(uri)
    store.commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)
    killed = Store.open(uri)
    killed._append("trials", killed._to_arrow("trials", _trials(1), commit_id=5))
    assert Store.open(uri).read("trials")["step"].unique().to_list() == [0]
    assert Store.open(uri).sweep(0) == 3
    assert Store.open(uri).sweep(0) == 0


def test_a_sweep_leaves_other_shards_alone(tmp_path: Path) -> None:
    uri = str(tmp_path / "tables")
    store = Store.open(uri)
    other_shards_attempt = 2**43 + 5
    store._append("trials", store._to_arrow("trials", _trials(1), other_shards_attempt))
    assert Store.open(uri).sweep(0) == 0
    assert Store.open(uri).sweep(1) == 3


def test_a_step_is_committed_once(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "tables"))
    store.commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)
    with pytest.raises(StoreError, match="step 0 of shard 0 is already committed"):
        store.commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.drop("reward"),
        lambda rows: rows.with_columns(pl.col("reward").cast(pl.Float32)),
        lambda rows: rows.with_columns(extra=1),
    ],
)
def test_a_frame_of_another_shape_is_refused_before_anything_is_written(
    tmp_path: Path, change: object
) -> None:
    assert callable(change)
    store = Store.open(str(tmp_path / "tables"))
    with pytest.raises(StoreError, match="table trials, column"):
        store.commit({"trials": change(_trials(0))}, shard=0, step=0, lanes=3)
    assert store.committed_steps(0) == []


def test_another_schema_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "tables")
    Store.open(uri).commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)
    monkeypatch.setattr("harness.store.SCHEMA_VERSION", SCHEMA_VERSION + 1)
    with pytest.raises(StoreError, match=f"schema version {SCHEMA_VERSION} is older"):
        Store.open(uri)


def test_compaction_changes_no_hash(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "tables"))
    for step in range(4):
        store.commit({"trials": _trials(step)}, shard=0, step=step, lanes=3)
    before = _hashes(store)
    store.compact()
    assert _hashes(store) == before


_WRITER = """
import sys
from harness.store import Store
from tests.test_store import _trials
store = Store.open(sys.argv[1])
store.sweep(0)
for step in range(6):
    if step not in store.committed_steps(0):
        store.commit({"trials": _trials(step)}, shard=0, step=step, lanes=3)
        print(step, flush=True)
"""


def test_killed_at_random_moments_it_ends_as_if_never_killed(tmp_path: Path) -> None:
    """Kill -9 while a step is being written; the next attempt goes on from what is committed."""
    uri, chance = str(tmp_path / "tables"), random.Random(7)
    command = [sys.executable, "-c", _WRITER, uri]
    root = Path(__file__).parents[1]
    kills = 0
    while kills < 12:
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                break
            # Somewhere in the step that follows: a spin of random length, not a clock.
            for _ in range(chance.randrange(200_000)):
                pass
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    resumed = Store.open(uri)
    straight = Store.open(str(tmp_path / "straight"))
    for step in range(6):
        straight.commit({"trials": _trials(step)}, shard=0, step=step, lanes=3)
    assert kills > 0
    assert resumed.committed_steps(0) == list(range(6))
    assert _hashes(resumed) == _hashes(straight)
    assert not list(tmp_path.glob("tables/**/.tmp*"))


def test_the_hash_does_not_depend_on_rows_chunks_or_signs_of_zero() -> None:
    one = pl.DataFrame(
        {"key": [1, 2, 3], "value": [0.0, None, float("nan")], "name": ["a", "", None]}
    )
    parts = [one[2:], one[:2]]
    other = pl.concat(parts, rechunk=False).with_columns(
        pl.when(pl.col("value") == 0).then(-0.0).otherwise("value").alias("value")
    )
    assert canonical_hash(one, ["key"]) == canonical_hash(other, ["key"])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([None], [""]),
        (["ab", "c"], ["a", "bc"]),
    ],
)
def test_null_and_empty_and_other_splits_differ(left: list, right: list) -> None:
    frames = [
        pl.DataFrame(
            {"key": range(len(values)), "text": values}, schema_overrides={"text": pl.String}
        )
        for values in (left, right)
    ]
    assert canonical_hash(frames[0], ["key"]) != canonical_hash(frames[1], ["key"])


def test_nested_values_count() -> None:
    def of(lists: list) -> str:
        schema = {"key": pl.Int64, "ids": pl.List(pl.Int64)}
        return canonical_hash(pl.DataFrame({"key": [0, 1], "ids": lists}, schema=schema), ["key"])

    assert (
        len({of([[1], [2, 3]]), of([[1, 2], [3]]), of([[], [1, 2, 3]]), of([None, [1, 2, 3]])}) == 4
    )
