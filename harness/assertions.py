"""From a failed assertion to what differed: kind, field, expected and actual value.

Only what the assertion shows is said. Which operand was expected is told by its name or by words
such as `expected A, got B`; where neither tells, both values stay unknown, and where no known form
matches, the kind is `other` and the field null.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from harness.pytest_output import Failure

_MESSAGE_LENGTH = 500
_VALUE_LENGTH = 200


@dataclass(frozen=True)
class Difference:
    """One thing that a check found; `suspect` where the verifier itself broke down."""

    kind: str
    field: str | None = None
    expected: str | None = None
    actual: str | None = None
    relative_error: float | None = None
    message: str = ""
    suspect: bool = False


def differences(failure: Failure) -> list[Difference]:
    """What a failing test shows, one row per kind and field, in the order it shows them."""
    lines = [line.rstrip() for line in failure.error]
    message = "\n".join(lines).strip()[:_MESSAGE_LENGTH]
    scripted = [line.split("FAIL:", 1)[1].strip() for line in lines if "FAIL:" in line]
    found = (
        [difference for text in scripted for difference in said(text)]
        if scripted
        else _of_assertion(failure.source, lines)
    )
    distinct: dict[tuple[str, str | None], Difference] = {}
    for difference in found or [Difference("other")]:
        field = _without_row(_on_its_sheet(difference.field or _labelled(lines), lines))
        distinct.setdefault(
            (difference.kind, field),
            replace(difference, field=field, message=difference.message or message),
        )
    return list(distinct.values())


def _on_its_sheet(field: str | None, lines: list[str]) -> str | None:
    """A cell with the sheet that openpyxl names for it; null for a path that names nothing."""
    for line in lines:
        cell = re.search(r"<Cell '([^']+)'\.([A-Z]{1,3}\d+)>", line)
        if cell and field == cell.group(2):
            return f"{cell.group(1)}!{field}"
    return field if (field or "").strip("[].") else None


def _labelled(lines: list[str]) -> str | None:
    """The only name in a message that is a tuple: `(2, 'Glucose', 501.58, 27.87)`."""
    message = next((line for line in lines if line.strip()), "").removeprefix("AssertionError: ")
    values = _parsed(message)
    if not isinstance(values, tuple):
        return None
    names = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if _number(value) is not None]
    return names[0] if len(names) == 1 and numbers and re.match(r"[^\W\d]", names[0]) else None


def _without_row(field: str | None) -> str | None:
    """A row is an index: `Plan!H12` is `Plan!H[]`. `Q1` and `FY25` are no cells."""
    field = re.sub(r"\b(row|line|slide|page)[ #]+\d+\b", r"\1 []", field) if field else None
    cell = re.fullmatch(r"((?:.*!)?)(\$?[A-Z]{1,3}\$?)\d{1,6}", field or "")
    if cell is None or (
        not cell.group(1) and re.fullmatch(r"Q[1-4]|[HPT]\d|[FC]Y\d+", field or "")
    ):
        return field
    return f"{cell.group(1)}{cell.group(2).replace('$', '')}[]"


def said(text: str) -> list[Difference]:
    """What one sentence of a verifier tells; `other` where its form is not known."""
    for form in _SENTENCES:
        match = form.pattern.search(text)
        if match:
            difference = form.read(match)
            if difference is not None:
                field = _without_row(difference.field)
                return [replace(difference, field=field, message=text[:_MESSAGE_LENGTH])]
    return [Difference("other", message=text[:_MESSAGE_LENGTH])]


def statement(message: str) -> str | None:
    """What the test's author wrote about a failing check, without any value; null where the
    message is a program's own, or says nothing once the values are gone.

    Masked: quoted texts, lists, numbers, what comes after `expected`, `equal to` or `got`.
    """
    first = message.strip().splitlines()[0] if message.strip() else ""
    text = re.sub(r"^(?:AssertionError|Failed|FAIL)\s*:\s*", "", first)
    if _NOT_PROSE.search(text):
        return None
    cell = re.match(r".*![A-Z]{1,3}\d+", text)
    place, text = (cell.group(), text[cell.end() :]) if cell else ("", text)
    for pattern, by in _VALUES_IN_PROSE:
        text = pattern.sub(by, text)
    text = place + text
    text = re.sub(r"…(?:\s*…)+", "…", re.sub(r"\s+", " ", text))
    text = re.sub(r"\s*[(:,;=]+\s*…[\s…),.]*$", "", text).strip(" :,;-.(=+>")
    words = re.findall(r"(?<![\w])[A-Za-z][a-z]+(?![\w])|[\u4e00-\u9fff]", text)
    return text[:_STATEMENT_LENGTH] if len(words) >= _STATEMENT_WORDS else None


_STATEMENT_LENGTH, _STATEMENT_WORDS = 160, 3
_NOT_PROSE = re.compile(
    r"^assert\b|^[\w.]*(?:Error|Exception|Exit)\b|^[(\[{<]|==|!=|<=|>=|=>|<function|\bobject at 0x|::"
    r"|^\S+\s*$|\w\(\w*\)"
)
_VALUES_IN_PROSE = [
    (re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”"), "…"),
    (re.compile(r"\([^)]*\)?"), ""),
    (re.compile(r"\[[^\]]*\]?|\{[^}]*\}?"), "…"),
    (re.compile(r" assert .*$"), ""),
    (re.compile(r"(?i)\b(?:but )?(?:got|found|was|actual(?:ly)?|instead of|received)\b.*$"), "…"),
    (re.compile(r"(?i)\b(expected|equals?|equal to)\b(?! (?:to|at least)\b).*$"), r"\1 …"),
    (re.compile(r"\b((?:should|must|to) be) [A-Z0-9].*$"), r"\1 …"),
    # The number of a sheet (`Pool #8100`) or in a name (`Q3`) is no value.
    (re.compile(r"(?<![A-Za-z#\d])[-+$€£]?\d[\d,.:/%-]*\w*"), "…"),
]


def _of_assertion(source: str, lines: list[str]) -> list[Difference]:
    first = next((line for line in lines if line.strip()), "")
    exception, _, text = first.partition(": ")
    if not re.fullmatch(r"[A-Za-z_][\w.]*", exception):
        exception, text = "AssertionError", first
    name = exception.rsplit(".", 1)[-1]
    if name != "AssertionError" and not first.startswith("assert"):
        return _of_exception(name, text, source)
    text = text if exception == "AssertionError" and first.startswith("AssertionError") else first
    structural = list(_structural(source, lines))
    if structural:
        return structural
    told = [] if text.startswith("assert ") else [text, *_listed(lines)]
    spoken = [difference for line in told if line.strip() for difference in said(line)]
    known = [difference for difference in spoken if difference.kind != "other"]
    if known:
        # The sentence may leave out what the asserted line names.
        return [_completed(known[0], source, lines), *known[1:]]
    return list(_operands(source, lines)) or spoken[:1]


def _listed(lines: list[str]) -> list[str]:
    """The further lines of a message, before pytest's own explanation of the assertion."""
    explained = next((n for n, line in enumerate(lines) if line.startswith("assert ")), len(lines))
    return [line.strip() for line in lines[1:explained]]


def _of_exception(name: str, text: str, source: str) -> list[Difference]:
    """An exception other than a failed assertion."""
    crashed = name in _VERIFIER_CRASHES or (
        name == "FileNotFoundError" and re.search(r"directory: '[\w-]+'$", text)
    )
    if crashed:
        return [Difference("other", suspect=True)]
    if name == "FileNotFoundError":
        missing = re.search(r"['\"]([^'\"]+)['\"]\s*$", text)
        return [Difference("missing_output", _file(missing.group(1)) if missing else None)]
    if name in _UNREADABLE or "not a zip file" in text:
        return [Difference("unreadable_output")]
    if name == "KeyError":
        key = text.strip().strip("'\"")
        worksheet = re.match(r"Worksheet (.+) does not exist", key)
        if worksheet:
            return [Difference("missing_field", worksheet.group(1).strip(" '\"."))]
        return [Difference("missing_field", _joined(_path_before(source, key), key))]
    if name == "IndexError" and _subscripts(source):
        return [Difference("missing_field", _subscripts(source))]
    if re.search(r"= [A-Z][A-Z0-9_]*\b", source):
        # The verifier stumbled over its own constants.
        return [Difference("other", suspect=True)]
    if name == "TypeError" or (name == "ValueError" and "could not convert" in text):
        return [Difference("type_mismatch", _subscripts(source))]
    return [Difference("other")]


_VERIFIER_CRASHES = {"CalledProcessError", "ImportError", "ModuleNotFoundError", "NameError"}
_UNREADABLE = {
    "BadZipFile",
    "EmptyDataError",
    "InvalidFileException",
    "JSONDecodeError",
    "PackageNotFoundError",
    "ParserError",
    "PdfReadError",
    "UnicodeDecodeError",
    "XMLSyntaxError",
}


# Structures: what pytest's own explanation or a recursive comparison says of nested values.


def _element(field: str, source: str) -> str:
    """One element of the list that the source names; a list read row by row has its `[]` inside."""
    return field if _ROW_BY_ROW.search(source) else f"{field}[]"


#: `[row['y'] for row in rows]`
_ROW_BY_ROW = re.compile(r"\[\s*(\w+)\[['\"]([^'\"]+)['\"]\] for \1 in ([^\]]*\]*?)\](?:\s|$|,|\))")


def _structural(source: str, lines: list[str]) -> Iterator[Difference]:
    sides = _sides(source)
    for number, line in enumerate(lines):
        line = line.strip()
        index = re.match(r"At index \d+ diff: (.+)$", line)
        if index:
            yield from _compared(index.group(1), _element(sides.field or "", source), sides)
        following = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if line == "Differing items:":
            yield from _compared(following, sides.field or "", sides)
        extra = re.match(r"(Left|Right) contains (\d+) more items?:$", line)
        if extra and following.startswith("{"):
            yield from _extra_keys(following, extra.group(1), sides)
    chain = re.search(r"((?:At (?:key|index) [^:]+: )+)(.+)$", " ".join(lines[:2]))
    if chain:
        path = _chained(chain.group(1))
        for difference in said(chain.group(2)):
            yield replace(difference, field=_joined(path, difference.field))


def _chained(steps: str) -> str:
    """`At key 'a': At index 0: At key 'b': ` as `a[].b`."""
    path = ""
    for kind, value in re.findall(r"At (key|index) ([^:]+): ", steps):
        path = f"{path}[]" if kind == "index" else _joined(path, value.strip("'\""))
    return path


def _compared(text: str, path: str, sides: "_Sides") -> Iterator[Difference]:
    """`left != right`, both printed by pytest."""
    pair = _literal_pair(text)
    if pair is None:
        if path and "!=" in text:
            yield Difference("value_mismatch", path)
        return
    yield from _unequal(*pair, path, sides)


def _unequal(left: Any, right: Any, path: str, sides: "_Sides") -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            field = _joined(path, str(key))
            if key in left and key in right:
                if left[key] != right[key]:
                    yield from _unequal(left[key], right[key], field, sides)
            elif sides.left_is_actual is not None:
                extra = (key in left) == sides.left_is_actual
                yield Difference("unexpected_field" if extra else "missing_field", field)
        return
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and left != right:
        same_items = sorted(map(repr, left)) == sorted(map(repr, right))
        if len(left) == len(right) and not same_items:
            for one, other in zip(left, right, strict=True):
                if one != other:
                    yield from _unequal(one, other, f"{path}[]", sides)
        else:
            yield Difference("order" if same_items else "value_mismatch", path or None)
        return
    yield _values(left, right, path or None, sides.left_is_actual)


def _extra_keys(text: str, side: str, sides: "_Sides") -> Iterator[Difference]:
    try:
        keys = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return
    if isinstance(keys, dict) and sides.left_is_actual is not None:
        extra = (side == "Left") == sides.left_is_actual
        for key in keys:
            field = _joined(sides.field or "", str(key))
            yield Difference("unexpected_field" if extra else "missing_field", field)


# Operands: what the asserted line itself compares.


@dataclass(frozen=True)
class _Sides:
    """Of `assert left == right`: the field that both name, and which side is the answer's."""

    field: str | None = None
    left_is_actual: bool | None = None


#: Names under which verifiers keep what they expect.
_EXPECTED_NAME = re.compile(
    r"(?i)(?:^|[_\W])(?:gt|expected|expect|exp|ground_truth|truth|oracle|reference|ref|golden|gold|"
    r"target|want|solution|correct)(?:$|[_\W\d])"
)
_LITERAL = re.compile(
    r"^\s*(?:[-\d.]+|['\"].*['\"]|None|True|False|[\[({].*[\])}]|[A-Z][A-Z0-9_]+)\s*$"
)


def _sides(source: str) -> _Sides:
    comparison = re.match(r"assert (.+?) (?:==|!=|<=|>=|<|>) (.+?)(?:, f?['\"(].*)?$", source)
    if not comparison:
        return _Sides(_subscripts(source))
    left, right = comparison.groups()
    expected_left, expected_right = (bool(_EXPECTED_NAME.search(side)) for side in (left, right))
    if expected_left == expected_right:
        literal = bool(_LITERAL.match(right)) and not _LITERAL.match(left)
        left_is_actual = True if literal and not expected_left else None
    else:
        left_is_actual = expected_right
    return _Sides(_subscripts(left) or _subscripts(right), left_is_actual)


def _operands(source: str, lines: list[str]) -> Iterator[Difference]:
    """From `assert 3 == 4` and `where 96.25 = abs((408.8 - 312.55))`, with the field of the source."""
    sides = _sides(source)
    shown = next((line for line in lines if re.search(r"(?:^|: )assert ", line)), "")
    shown = shown[shown.find("assert ") :]
    distance = next(
        (
            m
            for line in lines
            if (m := re.search(r"abs\(\(+(-?[\d.e+]+) - \(?(-?[\d.e+]+)\)+", line))
        ),
        None,
    )
    close = next(
        (
            m
            for line in lines
            if (m := re.search(r"False = (?:is)?close\((-?[\d.]+), (-?[\d.]+)", line))
        ),
        None,
    )
    numbers = distance or close
    if numbers:
        left, right = (float(value) for value in numbers.groups())
        inner = re.search(r"(?:abs|close)\((.+)", source)
        order = _order_in(inner.group(1)) if inner else None
        deviation = _values(left, right, _subscripts(inner.group(1) if inner else source), order)
        yield replace(deviation, kind="numeric_deviation")
        return
    if re.search(r"\bisinstance\(", source):
        yield Difference("type_mismatch", _subscripts(source))
        return
    named = re.match(r"assert not \w+, \((?:col|column|field|feature|key|name)\b", source)
    labelled = re.search(r"\('([^']+)', ", lines[0] if lines else "")
    if named and labelled:
        yield Difference("value_mismatch", labelled.group(1))
        return
    if re.search(r"\bis not None\b", source) and shown.startswith("assert None is not None"):
        if sides.field or _subscripts(source):
            yield Difference("missing_field", sides.field or _subscripts(source))
        return
    member = re.match(r"assert (\S+\[['\"][^'\"]+['\"]\]) in [{\[(]", source)
    if member:
        yield Difference("value_mismatch", _subscripts(member.group(1)))
        return
    absent = re.match(r"assert ['\"]([^'\"]+)['\"] in (\{|dict_keys|\[)", shown)
    if absent and re.search(
        r"(?i) in .*(?:keys|columns|fields|header|names|answer|data|result)", source
    ):
        yield Difference("missing_field", _joined(sides.field or "", absent.group(1)))
        return
    if "exists()" in shown or any("exists()" in line and "False =" in line for line in lines):
        yield Difference("missing_output")
        return
    if "built-in method match" in "".join(lines) or "re.fullmatch" in source:
        yield Difference("type_mismatch", sides.field)
        return
    equality = re.match(r"assert (.+?) == (.+)$", shown)
    pair = _literal_pair(f"{equality.group(1)} != {equality.group(2)}") if equality else None
    if pair is not None:
        yield from _unequal(*pair, sides.field or "", sides)
    elif equality and sides.field:
        yield Difference("value_mismatch", sides.field)


def _order_in(arguments: str) -> bool | None:
    """Whether the first of `a - b` or `a, b` is the answer's value."""
    first, _, second = re.sub(r"\)+.*$", "", arguments).partition(
        " - " if " - " in arguments else ","
    )
    expected = [bool(_EXPECTED_NAME.search(side)) for side in (first, second)]
    return None if expected[0] == expected[1] else expected[1]


def _values(left: Any, right: Any, field: str | None, left_is_actual: bool | None) -> Difference:
    """Two unequal values; without knowing which was expected they are not told."""
    numbers = [_number(value) for value in (left, right)]
    both = None not in numbers
    if both and isinstance(left, str) != isinstance(right, str):
        # The same number as text: right in a wrong format.
        kind = "type_mismatch" if numbers[0] == numbers[1] else "value_mismatch"
    elif both and not isinstance(left, str):
        kind = "numeric_deviation"
    else:
        kind = "type_mismatch" if _types_differ(left, right) else "value_mismatch"
    if left_is_actual is None:
        return Difference(kind, field)
    actual, expected = (left, right) if left_is_actual else (right, left)
    return Difference(
        kind,
        field,
        expected=_printed(expected)[:_VALUE_LENGTH],
        actual=_printed(actual)[:_VALUE_LENGTH],
        relative_error=_relative_error(_number(expected), _number(actual)) if both else None,
    )


def _printed(value: Any) -> str:
    """The value as text; a set in order, because Python's own order changes from run to run."""
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(repr, value))) + "}"
    return str(value)


def _types_differ(left: Any, right: Any) -> bool:
    return None not in (left, right) and type(left) is not type(right)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    text = str(value).strip().rstrip("%").replace(",", "")
    return float(text) if re.fullmatch(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text) else None


def _relative_error(expected: float | None, actual: float | None) -> float | None:
    if expected is None or actual is None:
        return None
    if expected == 0:
        return 0.0 if actual == 0 else 1.0
    error = abs(actual - expected) / abs(expected)
    return error if error < float("inf") else None


def _literal_pair(text: str) -> tuple[Any, Any] | None:
    """Both sides of `left != right` as values, where both are whole literals: pytest cuts the
    middle out of long ones, and what is left may still read like a value."""
    if "..." in text:
        return None
    for match in re.finditer(r" != ", text):
        try:
            return ast.literal_eval(text[: match.start()].strip()), ast.literal_eval(
                text[match.end() :].strip()
            )
        except (ValueError, SyntaxError, MemoryError):
            continue
    return None


# Fields.


def _subscripts(source: str) -> str | None:
    """The field that a source line names by constant subscripts: `a['x'][0]['y']` is `x[].y`, and
    `[row['y'] for row in a['x']]` too."""
    each = _ROW_BY_ROW.search(source)
    if each:
        return f"{_subscripts(each.group(3)) or ''}[].{each.group(2)}"
    longest: list[str] = []
    for chain in re.findall(r"((?:\[(?:'[^']*'|\"[^\"]*\"|-?\d+|[a-z_]\w*)\])+)", source):
        steps = re.findall(r"\[([^\]]*)\]", chain)
        named = [step for step in steps if step[:1] in "'\""]
        if len(named) > len([step for step in longest if step[:1] in "'\""]):
            longest = steps
    got = re.findall(r"\.get\((['\"][^'\"]+['\"])", source)
    if not longest and got:
        longest = [got[0]]
    path = ""
    for step in longest:
        if step[:1] in "'\"":
            path = _joined(path, step.strip("'\""))
        elif path:
            # A variable or a number: an index, or a key that the line does not tell.
            path = f"{path}[]"
    return path.removesuffix("[]") or None


def _path_before(source: str, key: str) -> str:
    """The part of the source's path that leads to the missing key."""
    path = _subscripts(source) or ""
    steps = path.split(".")
    return ".".join(steps[: steps.index(key)]) if key in steps else ""


def _joined(path: str, step: str | None) -> str:
    if not step:
        return path
    return f"{path}.{step}" if path else step


def _file(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]


def _completed(difference: Difference, source: str, lines: list[str]) -> Difference:
    """A sentence's difference with the field and values that only the assertion shows."""
    from_operands = next(_operands(source, lines), None)
    if from_operands is None or from_operands.kind != difference.kind:
        return difference
    return Difference(
        difference.kind,
        difference.field or from_operands.field,
        difference.expected or from_operands.expected,
        difference.actual or from_operands.actual,
        from_operands.relative_error
        if difference.relative_error is None
        else difference.relative_error,
        difference.message,
    )


# Sentences: the forms in which verifiers tell what was wrong, most telling first.


@dataclass(frozen=True)
class _Form:
    pattern: re.Pattern[str]
    kind: str | None = None

    def read(self, match: re.Match[str]) -> Difference | None:
        groups = match.groupdict()
        field = groups.get("field")
        field = _cleaned(field) if field else None
        if "expected" in groups and "actual" in groups:
            difference = _values(
                _parsed(groups["actual"]), _parsed(groups["expected"]), field, left_is_actual=True
            )
            return replace(difference, kind=self.kind or difference.kind)
        if "left" in groups:
            difference = _values(_parsed(groups["left"]), _parsed(groups["right"]), field, None)
            return replace(difference, kind=self.kind or difference.kind)
        return Difference(self.kind, field) if self.kind else None


def _parsed(text: str) -> Any:
    text = text.strip().rstrip(".,;")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        return text


def _cleaned(field: str) -> str | None:
    """The field without quotes and filler; null where what is left names nothing."""
    field = field.strip(" '\"`:,.=")
    if "!" in field:
        # A cell on its sheet, whatever words the sheet's name has.
        return field[:80]
    field = re.sub(
        r"(?i)^(?:the|a|an|value of|column|field|key|cell|sheet|unexpected)\s+", "", field
    )
    field = re.sub(
        r"(?i)\s+(?:column|field|key|cell|value|expected|(?:is )?too different|mismatch(?:ed)?|differs?)$",
        "",
        field.strip(" '\"`"),
    )
    field = field.strip(" '\"`")
    if not field or len(field) > 80 or len(field.split()) > 5:
        return None
    return field


_QUOTED = r"['\"`](?P<field>[^'\"`]+)['\"`]"
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s,;()]+)"
_SENTENCES = [
    _Form(re.compile(pattern), kind)
    for pattern, kind in [
        (r"(?i)^row \d+ col(?:umn)? (?P<field>\d+): (?:text|numeric|value|type) mismatch", None),
        (
            r"(?i)numeric mismatch:? (?P<left>-?[\d.,e+]+) vs (?P<right>-?[\d.,e+]+)",
            "numeric_deviation",
        ),
        (
            rf"(?i)(?:string|text|value) mismatch:? (?P<left>{_VALUE}) vs (?P<right>{_VALUE})",
            "value_mismatch",
        ),
        (r"(?i)type mismatch", "type_mismatch"),
        (
            r"(?i)(?:missing (?:required )?output(?: file)?|output (?:file |workbook )?(?:is )?missing):? *(?:\S*/)?(?P<field>[\w.-]+\.\w+)?",
            "missing_output",
        ),
        (
            r"(?i)(?:\S*/)?(?P<field>[\w.-]+\.\w{2,5}) (?:was |is )?(?:not found|does not exist|not created|missing)\b",
            "missing_output",
        ),
        (
            r"(?i)(?:output|result)s? file .*(?:not found|does not exist|missing|should exist)",
            "missing_output",
        ),
        (
            rf"(?i)missing (?:required |expected )?(?:field|key|column|header|sheet|section|defined name)s?:? *{_QUOTED}",
            "missing_field",
        ),
        (
            r"(?i)missing (?:required |expected )?(?:field|key|column|header|sheet|section|defined name)s?:? +(?P<field>[A-Za-z_][\w.+]*)",
            "missing_field",
        ),
        (r"(?i)\bmissing (?P<field>[A-Za-z_]\w*) (?:column|field|key|sheet)\b", "missing_field"),
        (
            rf"(?i)(?:field|key|column|sheet|section) {_QUOTED} (?:is |was )?(?:missing|not found|absent)",
            "missing_field",
        ),
        (rf"(?i)is missing (?:required )?(?:field|key|column|section) {_QUOTED}", "missing_field"),
        (
            rf"(?i)(?:unexpected|extra|additional) (?:field|key|column)s?:? *{_QUOTED}",
            "unexpected_field",
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?) mismatch(?: \([^)]*\))?: *(?:got|actual) *[=:]? *(?P<actual>{_VALUE}),? *(?:but )?(?:expected|vs) *[=:]? *(?P<expected>{_VALUE})",
            None,
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?) mismatch(?: \([^)]*\))?: *expected *[=:]? *(?P<expected>{_VALUE}),? *(?:but )?(?:got|found|actual|was) *[=:]? *(?P<actual>{_VALUE})",
            None,
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?) mismatch: *actual=(?P<actual>{_VALUE}),? *expected=(?P<expected>{_VALUE})",
            None,
        ),
        (
            rf"(?i)expected (?P<field>[A-Z]{{1,3}}\d+)=(?P<expected>{_VALUE}),? (?:but )?got (?P<actual>{_VALUE})",
            None,
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?)[:]? (?:was |is )?(?:incorrect|wrong|not updated correctly|does not match)?:? *\bexpected (?P<expected>{_VALUE}),? (?:but )?(?:got|found|was|actual) *[=:]? *(?P<actual>{_VALUE})",
            None,
        ),
        (
            rf"(?i)^expected (?P<expected>{_VALUE}),? (?:but )?(?:got|found|was|actual) *[=:]? *(?P<actual>{_VALUE})",
            None,
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?): *(?:got|actual) *[=:]? *(?P<actual>{_VALUE}),? *(?:but )?expected *[=:]? *(?P<expected>{_VALUE})",
            None,
        ),
        (rf"(?i)(?P<field>[A-Za-z][\w ]*?) should be {_VALUE}, got {_VALUE}", "value_mismatch"),
        (
            r"(?i)^expected >= ?(?P<expected>\d+) (?P<field>[\w ]+?), got (?P<actual>\d+)",
            "numeric_deviation",
        ),
        (
            rf"(?i)(?P<field>[A-Za-z][\w ./!-]*?) mismatch:? (?P<left>{_VALUE}) vs (?P<right>{_VALUE})",
            None,
        ),
        (rf"(?i)^no [\w ]+ found in {_QUOTED}", "missing_field"),
        (
            r"(?i)^(?P<field>[\w -]+?) (?:cell )?is (?:missing|empty)(?: \([^)]*\))?\.?$",
            "missing_field",
        ),
        (r"(?i)^[\w -]+? is missing (?P<field>[\w -]+?)\.?$", "missing_field"),
        (r"(?i)^row \d+ \((?P<field>[\w -]+)\) should exist", "missing_field"),
        (r"^(?P<field>[\w #&().-]+![A-Z]{1,3}\d+) (?:\w+ )?mismatch", "value_mismatch"),
        (r"^(?P<field>[A-Z]\w* (?:row \d+|[A-Z]{1,2}\d+)) should", "value_mismatch"),
        (
            r"(?i)\b(?:wrong|incorrect|invalid) order\b|\border (?:mismatch|is wrong|differs)\b|\bmust be (?:sorted|ordered)\b|\bnot (?:sorted|in order)\b",
            "order",
        ),
        (r"(?i)^(?P<field>[\w #&().-]+![A-Z]{1,3}\d+) (?:must|should) be", "value_mismatch"),
        (
            r"(?i)(?P<field>[\w #&().-]+![A-Z]{1,3}\d+) (?:formula )?is missing token",
            "value_mismatch",
        ),
        (r"(?i)^unexpected change at (?P<field>[\w ]+![A-Z]{1,3}\d+)", "value_mismatch"),
        (
            r"(?i)(?:not valid|invalid) json|cannot (?:be )?(?:read|opened|parsed?)|corrupt",
            "unreadable_output",
        ),
        (r"(?i)timed? ?out", "timeout"),
    ]
]
