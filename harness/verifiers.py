"""Verifiers of answers: what is asked for against what was written, field by field.

They say what field is wrong and in what way, never what to do about it. A field is a path whose
list indices are `[]`; each field of the expected answer is one check.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

#: The value of a field that is not there.
_ABSENT: Any = object()


@dataclass(frozen=True)
class Check:
    """One check of an answer, as the columns of schema Checks; `kind` is null where it passed."""

    field: str | None
    kind: str | None = None
    expected: str | None = None
    actual: str | None = None
    relative_error: float | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with the field."""
        return self.kind is None


def verified(
    output: str, written: str | None, expected: Any, tolerance: float = 1e-6
) -> list[Check]:
    """The checks of an output file (None: it was not written), one per field of `expected`, and
    one per field that nobody asked for. Formats: JSON, CSV rows, `name: value` lines."""
    if written is None:
        return [Check(None, "missing_output")]
    try:
        actual = _read(output, written, expected)
    except ValueError:
        return [Check(None, "unreadable_output")]
    found: dict[str, Check] = {}
    for check in _compared(expected, actual, "", tolerance):
        assert check.field is not None
        # One check per field: the first fault of many rows stands for all of them.
        if check.field not in found or (found[check.field].passed and not check.passed):
            found[check.field] = check
    return list(found.values())


def _read(output: str, text: str, expected: Any) -> Any:
    """The answer in the file. Raises ValueError where it cannot be read."""
    suffix = PurePosixPath(output).suffix
    if suffix == ".json":
        return json.loads(text)
    if suffix == ".csv":
        reader = csv.DictReader(io.StringIO(text))
        if not reader.fieldnames:
            raise ValueError("no header")
        like = expected[0] if expected else {}
        return [
            {name: _typed(value, like.get(name)) for name, value in row.items() if name is not None}
            for row in reader
        ]
    pairs = [line.split(":", 1) for line in text.splitlines() if line.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError("not lines of `name: value`")
    return {
        name.strip(): _typed(value.strip(), expected.get(name.strip())) for name, value in pairs
    }


def _typed(text: str | None, like: Any) -> Any:
    """Text as the type that the expected value has, where it can be read so."""
    if text is None:
        return None
    if isinstance(like, list):
        parts = [part.strip() for part in text.split(",")] if text else []
        return [_typed(part, like[0] if like else None) for part in parts]
    if isinstance(like, bool) or not isinstance(like, int | float):
        return text
    try:
        return int(text) if isinstance(like, int) else float(text)
    except ValueError:
        return text


def _compared(expected: Any, actual: Any, path: str, tolerance: float) -> Iterator[Check]:
    if actual is _ABSENT:
        yield Check(path, "missing_field", expected=_shown(expected))
    elif isinstance(expected, Mapping):
        yield from _mappings(expected, actual, path, tolerance)
    elif isinstance(expected, list):
        yield from _lists(expected, actual, path, tolerance)
    else:
        yield _leaf(expected, actual, path, tolerance)


def _mappings(
    expected: Mapping[str, Any], actual: Any, path: str, tolerance: float
) -> Iterator[Check]:
    if not isinstance(actual, Mapping):
        yield Check(path or "answer", "type_mismatch", "object", type(actual).__name__)
        return
    for name, value in expected.items():
        yield from _compared(value, actual.get(name, _ABSENT), _joined(path, name), tolerance)
    for name in actual:
        if name not in expected:
            yield Check(_joined(path, name), "unexpected_field", actual=_shown(actual[name]))


def _lists(expected: Sequence[Any], actual: Any, path: str, tolerance: float) -> Iterator[Check]:
    if not isinstance(actual, list):
        yield Check(path or "answer", "type_mismatch", "list", type(actual).__name__)
        return
    element = f"{path}[]"
    if expected != actual and _canonical(expected) == _canonical(actual):
        yield Check(element, "order", _shown(expected), _shown(actual))
        return
    if len(expected) != len(actual):
        error = abs(len(actual) - len(expected)) / len(expected) if expected else 1.0
        yield Check(element, "value_mismatch", str(len(expected)), str(len(actual)), error)
    for one, other in zip(expected, actual, strict=False):
        yield from _compared(one, other, element, tolerance)
    if not expected and not actual:
        yield Check(element)


def _leaf(expected: Any, actual: Any, path: str, tolerance: float) -> Check:
    if _kind(expected) != _kind(actual):
        return Check(path, "type_mismatch", _shown(expected), _shown(actual))
    if _kind(expected) != "number":
        same = expected == actual
        return Check(path, None if same else "value_mismatch", _shown(expected), _shown(actual))
    error = abs(actual - expected) / abs(expected) if expected else float(actual != 0)
    wrong = "numeric_deviation" if error > tolerance else None
    return Check(path, wrong, _shown(expected), _shown(actual), error if wrong else None)


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def _canonical(values: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(value, sort_keys=True) for value in values)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:200]
