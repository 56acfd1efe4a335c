"""Family folders in the SkillFlow/Harbor layout: ordered tasks, instructions, what people said."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from harness.errors import InputError
from harness.findings import Finding
from harness.recording import REMARKS
from memos_flow.schemas import Tasks
from memos_flow.schemas.vocabulary import CHANNELS, POLARITIES
from memos_flow.texts import content_id, texts_frame

RANKING = "ALL_TASK_DIFFICULTY_RANKING.json"
INSTRUCTION = "instruction.md"
FEEDBACK = "feedback.jsonl"
#: Stands for a family's or task's own id in a query.
MASK = "this task"

#: A file name in running text: with any folders before it, and an extension of a file format, so
#: that an attribute such as `summary.total` is none.
_EXTENSIONS = (
    "avro|bmp|bz2|csv|db|doc|docx|eml|feather|gif|gz|htm|html|hwp|hwpx|ics|ini|ipynb|jpeg|jpg|js|"
    "json|jsonl|log|md|ndjson|odt|ods|parquet|pdf|png|ppt|pptx|py|r|rtf|sh|sql|sqlite|svg|tar|tif|"
    "tiff|toml|ts|tsv|txt|xls|xlsm|xlsx|xml|yaml|yml|zip"
)
_FILE_NAME = re.compile(
    rf"(?<![\w/.-])(?:[\w.~-]*/)*([\w][\w-]*(?:\.[\w-]+)*\.(?:{_EXTENSIONS}))(?![\w/-])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Families:
    """`tasks` and `texts` of the schemas of that name, `feedback` with the columns of REMARKS."""

    tasks: pl.DataFrame
    texts: pl.DataFrame
    feedback: pl.DataFrame
    findings: list[Finding] = field(default_factory=list)


def load_families(root: Path, only: Sequence[str] | None = None) -> Families:
    """The families below `root`, or the one family that `root` is.

    Raises InputError where a ranking names a task that is not there, where a file is not what its
    name says, or where `only` names a family that is not there.
    """
    folders = family_folders(root)
    missing = sorted(set(only or ()) - set(folders))
    if missing:
        raise InputError(
            root, "no such family", found=missing[0], expected=f"one of {sorted(folders)}"
        )
    wanted = {name: path for name, path in folders.items() if not only or name in only}
    texts: dict[str, None] = {}
    findings: list[Finding] = []
    tasks = [
        _task_row(name, path / task, index, texts, findings)
        for name, path in wanted.items()
        for index, task in enumerate(_ordered_tasks(path))
    ]
    remarks = [
        row
        for name, path in wanted.items()
        for row in _remarks(name, path, {task["task"] for task in tasks if task["family"] == name})
    ]
    texts |= dict.fromkeys(row["text"] for row in remarks)
    feedback = [{**row, "text_id": content_id(row["text"])} for row in remarks]
    schema = Tasks.create_empty().schema
    return Families(
        tasks=Tasks.validate(pl.DataFrame(tasks, schema=dict(schema))),
        texts=texts_frame(texts),
        feedback=pl.DataFrame(
            [{name: row[name] for name in REMARKS} for row in feedback], schema=REMARKS
        ),
        findings=findings,
    )


def family_folders(root: Path) -> dict[str, Path]:
    """Family name to folder, sorted by name."""
    if not root.is_dir():
        raise InputError(root, "no such folder", expected="a family, or a folder of families")
    if _task_folders(root) or (root / RANKING).is_file():
        return {root.resolve().name: root}
    folders = {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}
    families = {name: path for name, path in folders.items() if _task_folders(path)}
    if not families:
        raise InputError(
            root,
            "no family found",
            expected=f"folders <family>/<task>/{INSTRUCTION}",
        )
    return families


def _task_folders(family: Path) -> list[str]:
    return sorted(path.parent.name for path in family.glob(f"*/{INSTRUCTION}"))


def _ordered_tasks(family: Path) -> list[str]:
    """The ranking's order; tasks that it does not list come after, by name."""
    present = _task_folders(family)
    ranking = family / RANKING
    if not ranking.is_file():
        return present
    listed = read_json(ranking)
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise InputError(ranking, "not a list of task names", found=listed)
    if len(set(listed)) < len(listed):
        repeated = next(name for name in listed if listed.count(name) > 1)
        raise InputError(ranking, "a task is listed twice", found=repeated)
    absent = [name for name in listed if name not in present]
    if absent:
        raise InputError(
            ranking,
            "a listed task is not there",
            found=absent[0],
            expected=f"a folder {absent[0]}/ with {INSTRUCTION}",
        )
    return [*listed, *(name for name in present if name not in set(listed))]


def _task_row(
    family: str, folder: Path, index: int, texts: dict[str, None], findings: list[Finding]
) -> dict[str, Any]:
    instruction = read_text(folder / INSTRUCTION)
    if not instruction.strip():
        findings.append(Finding(str(folder / INSTRUCTION), "warning", "the instruction is empty"))
    environment = folder / "environment"
    provided = (
        [path.name for path in environment.rglob("*") if path.is_file()]
        if environment.is_dir()
        else []
    )
    own_ids = [family, folder.name]
    # A file that is named for the task would give its id away.
    names = sorted(
        name
        for name in {*file_names(instruction), *provided} - {"Dockerfile"}
        if masked(name, own_ids) == name
    )
    query = masked("\n".join([instruction, *names]), own_ids)
    texts |= {instruction: None, query: None}
    return {
        "family": family,
        "task": folder.name,
        "task_index": index,
        "instruction_text_id": content_id(instruction),
        "query_text_id": content_id(query),
        "file_names": names,
        "domain": None,
        "tool": None,
    }


def file_names(text: str) -> list[str]:
    """The distinct file names in a text, without their folders, sorted."""
    return sorted({match.group(1) for match in _FILE_NAME.finditer(text)})


def masked(text: str, own_ids: Iterable[str]) -> str:
    """The text with the family's and task's own ids replaced, whatever separates their words.

    An id of one word is masked only as written in code (`id`) or in a path, because it may be an
    ordinary word of the instruction.
    """
    for own_id in sorted(own_ids, key=len, reverse=True):
        words = [re.escape(word) for word in re.split(r"[-_\s]+", own_id) if word]
        phrase = r"[-_\s]+".join(words)
        pattern = rf"(?<!\w){phrase}(?!\w)" if len(words) > 1 else rf"(?<=[`/]){phrase}(?=[`/.])"
        text = re.sub(pattern, MASK, text, flags=re.IGNORECASE)
    return text


def _remarks(family: str, folder: Path, tasks: set[str]) -> Iterable[dict[str, Any]]:
    """The rows of the family's `feedback.jsonl`, checked."""
    path = folder / FEEDBACK
    if not path.is_file():
        return
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            yield _remark(family, f"{path}:{number}", line, tasks)


def _remark(family: str, place: str, line: str, tasks: set[str]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(place, f"not JSON ({error.msg})", found=line[:60]) from error
    if not isinstance(row, dict):
        raise InputError(place, "not an object", found=line[:60])
    known = {"task", "arrives_after", "text", "polarity", "magnitude", "channel", "fault"}
    for name in row:
        if name not in known:
            raise InputError(place, "unknown field", field=name, expected=f"one of {sorted(known)}")
    values = {"polarity": "neutral", "channel": "explicit", "magnitude": None, "fault": None} | row
    values.setdefault("arrives_after", values.get("task"))
    allowed: dict[str, Sequence[str]] = {
        "task": sorted(tasks),
        "arrives_after": sorted(tasks),
        "polarity": POLARITIES,
        "channel": CHANNELS,
    }
    for name, choices in allowed.items():
        if values.get(name) not in choices:
            raise InputError(
                place, "not understood", field=name, found=values.get(name), expected=str(choices)
            )
    if not isinstance(values.get("text"), str):
        raise InputError(place, "not a text", field="text", found=values.get("text"))
    magnitude = values["magnitude"]
    if magnitude is not None and not (
        isinstance(magnitude, int | float) and 0 <= float(magnitude) <= 1
    ):
        raise InputError(
            place, "out of range", field="magnitude", found=magnitude, expected="0 to 1, or null"
        )
    return {
        **values,
        "family": family,
        "magnitude": None if magnitude is None else float(magnitude),
    }


def read_text(path: Path) -> str:
    """The file as UTF-8; raises InputError where it is not."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, "not UTF-8", found=f"byte {error.start}") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})") from error


def read_json(path: Path) -> Any:
    """The file as JSON; raises InputError with line and column where it is not."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}:{error.colno}", "not JSON", found=error.msg
        ) from error
