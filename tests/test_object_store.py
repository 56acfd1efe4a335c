"""Tables in an object store: a local server that speaks S3 stands for one."""

import http.client
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
from moto.server import ThreadedMotoServer

from harness.cli import main
from harness.store import Store
from memos_flow.schemas import Texts, Trials
from tests.frames import frame

_KEY, _SECRET = "key-of-the-test", "secret-of-the-test"
_RUN = ["run", "family=demo", "memory=[full,off]"]
_prefixes = count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of a bucket; credentials and endpoint are in the environment, as for a user."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    connection = http.client.HTTPConnection(host, port)
    connection.request("PUT", "/bucket")
    assert connection.getresponse().read() == b""
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "NO_PROXY": host,
        }.items():
            patch.setenv(name, value)
        yield "s3://bucket"
    server.stop()


@pytest.fixture
def uri(bucket: str) -> str:
    """A prefix that nothing was written to."""
    return f"{bucket}/runs/{next(_prefixes)}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run whose tables are beside its configuration."""
    folder = tmp_path_factory.mktemp("local") / "run"
    assert main([*_RUN, f"output={folder}"]) == 0
    return folder


def _hashes(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())["tables"]


def _trials(step: int) -> pl.DataFrame:
    rows = [
        {"lane_id": lane, "step": step, "task": f"task {step}", "reward": 1.0, "passed": True}
        | {"status": "scored"}
        for lane in range(3)
    ]
    return Trials.validate(frame(Trials, rows))


def test_committed_rows_come_back_with_their_types(uri: str) -> None:
    Store.open(uri).commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)
    back = Store.open(uri).read("trials").sort("lane_id")
    assert back.schema == _trials(0).schema
    assert back.equals(_trials(0))


def test_a_store_is_new_until_something_is_written(uri: str) -> None:
    assert Store.open(uri).is_new()
    assert Store.open(uri).commits().is_empty()
    Store.open(uri).create()
    assert not Store.open(uri).is_new()
    assert Store.open(uri).read("trials").schema == Trials.create_empty().schema


def test_rows_that_several_shards_wrote_keep_their_order(uri: str) -> None:
    """Settings are shown as they were named, whatever the shards."""
    texts = frame(Texts, [{"text_id": number * 7 % 101, "text": "t"} for number in range(101)])
    for shard in range(2):
        Store.open(uri).commit({"texts": texts}, shard=shard, step=-1, lanes=1)
    assert Store.open(uri).read("texts").equals(texts)


@pytest.fixture(scope="module")
def resumed(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was interrupted in its second step, then resumed."""
    folder, uri = tmp_path_factory.mktemp("resumed") / "run", f"{bucket}/resumed"
    command = [*_RUN, f"output={folder}", f"store.uri={uri}"]
    append = Store._append
    commits = count()

    def interrupted(store: Store, name: str, rows: object) -> None:
        # Set-up and first step are committed; of the second one, only the rows are there.
        if name == "commits" and next(commits) == 2:
            raise KeyboardInterrupt
        append(store, name, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "_append", interrupted)
        assert main(command) == 130
    assert Store.open(uri).committed_steps(0) == [-1, 0]
    assert not (folder / "summary.json").exists()
    assert main(command) == 0
    return folder


def test_an_interrupted_run_ends_as_a_local_one_that_was_not(resumed: Path, local: Path) -> None:
    assert _hashes(resumed) == _hashes(local)
    assert {path.name for path in resumed.iterdir()} == {
        *("config.yaml", "summary.json", "acceptance.json")
    }


def test_the_commands_find_the_tables_through_the_run_folder(
    resumed: Path, local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", f"run={local}"]) == 0
    reported = capsys.readouterr().out
    assert main(["report", f"run={resumed}"]) == 0
    assert capsys.readouterr().out == reported
    assert main(["accept", f"run={resumed}"]) == 0
    assert main(["compare", f"run={local}", f"against={resumed}"]) == 0
    assert main(["export", f"run={resumed}", "what=tables", f"to={tmp_path / 'exported'}"]) == 0
    told = "".join(capsys.readouterr())
    files = [path.read_text() for path in resumed.iterdir()]
    tables = [pl.read_parquet(path).write_json() for path in tmp_path.glob("exported/*")]
    assert "s3://bucket/resumed" in (resumed / "config.yaml").read_text()
    assert not any(word in text for word in (_KEY, _SECRET) for text in (told, *files, *tables))


def test_shards_append_at_the_same_time(uri: str) -> None:
    Store.open(uri).create()
    together = Barrier(2, timeout=20)

    def shard_of(shard: int) -> None:
        store = Store.open(uri)
        store.sweep(shard)
        for step in range(6):
            together.wait()
            store.commit({"trials": _trials(step)}, shard=shard, step=step, lanes=3)
        store.compact()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(shard_of, range(2)))
    store = Store.open(uri)
    every_step = pl.concat([_trials(step) for step in range(6)]).sort("step", "lane_id")
    for shard in range(2):
        rows = store.read("trials", store.commits(shard)).sort("step", "lane_id")
        assert rows.equals(every_step)


def test_the_prefix_of_another_run_is_refused(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store.open(uri).commit({"trials": _trials(0)}, shard=0, step=0, lanes=3)
    assert main([*_RUN, f"output={tmp_path / 'new'}", f"store.uri={uri}"]) == 2
    told = capsys.readouterr().err
    assert f"{uri}: holds the tables of another run" in told
    assert "Choose another place with store.uri=" in told
    assert not (tmp_path / "new").exists()
    assert Store.open(uri).read("trials").height == 3


def test_a_run_does_not_move(
    uri: str, local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_RUN, f"output={local}", f"store.uri={uri}"]) == 2
    assert f"store.uri: None there, '{uri}' here" in capsys.readouterr().err
    assert Store.open(uri).is_new()


def test_a_bucket_that_is_not_there_is_one_line(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_RUN, f"output={tmp_path / 'new'}", "store.uri=s3://elsewhere/run"]) == 2
    told = capsys.readouterr().err
    assert "s3://elsewhere/run: cannot be opened (NoSuchBucket)" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "place", [f"s3://{_KEY}:{_SECRET}@bucket/run", f"s3://bucket/run?key={_SECRET}", "tables"]
)
def test_only_a_place_is_taken_and_nothing_else_repeated(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*_RUN, f"output={tmp_path / 'new'}", f"store.uri='{place}'"]) == 2
    told = capsys.readouterr().err
    assert "store.uri: expected null or s3://bucket/prefix" in told
    assert _SECRET not in told
    assert not (tmp_path / "new").exists()
