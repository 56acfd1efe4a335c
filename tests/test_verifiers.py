"""The verifier of answers: fields and kinds, never remedies."""

from typing import Any

import pytest

from harness.verifiers import Check, verified


def _failing(expected: Any, written: str, output: str = "a.json") -> list[tuple[str, str | None]]:
    checks = verified(output, written, expected)
    return [(check.kind, check.field) for check in checks if check.kind is not None]


@pytest.mark.parametrize(
    ("expected", "written", "failing"),
    [
        ({"a": 1}, '{"a": 1}', []),
        ({"a": 1}, '{"a": 2}', [("numeric_deviation", "a")]),
        ({"a": 1}, '{"a": 1.0000000001}', []),
        ({"a": "x"}, '{"a": "y"}', [("value_mismatch", "a")]),
        ({"a": 1}, '{"a": "1"}', [("type_mismatch", "a")]),
        ({"a": True}, '{"a": 1}', [("type_mismatch", "a")]),
        ({"a": 1}, "{}", [("missing_field", "a")]),
        ({"a": 1}, '{"a": 1, "b": 2}', [("unexpected_field", "b")]),
        ({"a": [1, 2]}, '{"a": [2, 1]}', [("order", "a[]")]),
        ({"a": [1, 2]}, '{"a": [1]}', [("value_mismatch", "a[]")]),
        (
            {"a": [{"b": 1}, {"b": 2}]},
            '{"a": [{"b": 1}, {"b": 3}]}',
            [("numeric_deviation", "a[].b")],
        ),
        ({"a": {"b": 1}}, '{"a": 3}', [("type_mismatch", "a")]),
        ({"a": 1}, "[]", [("type_mismatch", "answer")]),
        ({"a": 1}, "{", [("unreadable_output", None)]),
    ],
)
def test_a_difference_is_told_by_kind_and_field(expected: Any, written: str, failing: list) -> None:
    assert _failing(expected, written) == failing


def test_what_was_not_written_is_missing() -> None:
    assert verified("a.json", None, {"a": 1}) == [Check(None, "missing_output")]


def test_each_field_of_the_answer_is_one_check() -> None:
    checks = verified("a.json", '{"rows": [{"x": 1}, {"x": 2}]}', {"rows": [{"x": 1}, {"x": 2}]})
    assert [(check.field, check.passed) for check in checks] == [("rows[].x", True)]


def test_relative_error_is_one_where_zero_was_expected() -> None:
    (check,) = verified("a.json", '{"a": 5}', {"a": 0})
    assert check.relative_error == 1.0
    (check,) = verified("a.json", '{"a": 15}', {"a": 10})
    assert check.relative_error == 0.5


def test_csv_rows_are_read_with_the_types_that_were_expected() -> None:
    rows = [{"name": "a", "total": 1}, {"name": "b", "total": 2}]
    assert _failing(rows, "name,total\na,1\nb,2\n", "a.csv") == []
    assert _failing(rows, "name,total\na,1\nb,x\n", "a.csv") == [("type_mismatch", "[].total")]
    assert _failing(rows, "name,total\nb,2\na,1\n", "a.csv") == [("order", "[]")]
    assert _failing(rows, "name,sum\na,1\nb,2\n", "a.csv") == [
        ("missing_field", "[].total"),
        ("unexpected_field", "[].sum"),
    ]
    assert _failing(rows, "", "a.csv") == [("unreadable_output", None)]


def test_lines_of_name_and_value() -> None:
    expected = {"count": 2, "names": ["a", "b"]}
    assert _failing(expected, "count: 2\nnames: a, b\n", "a.md") == []
    assert _failing(expected, "count: 3\nnames: b, a\n", "a.md") == [
        ("numeric_deviation", "count"),
        ("order", "names[]"),
    ]
    assert _failing(expected, "just prose\n", "a.md") == [("unreadable_output", None)]
