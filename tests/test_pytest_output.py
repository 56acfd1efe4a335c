"""Section 10: from pytest's text to kinds, fields and values, never more than it shows."""

import pytest

from harness.assertions import Difference, differences, said, statement
from harness.pytest_output import Failure, failure_of_trace, outcome_of

_INNER = """.F                                                                       [100%]
=================================== FAILURES ===================================
_________________________________ test_answers _________________________________

    def test_answers():
>       assert answers['rows'] == gt['rows']
E       AssertionError: assert [{'id': 1, ...}] == [{'id': 1, ...}]
E
E         At index 0 diff: {'id': 1, 'sum': 4} != {'id': 1, 'sum': 5}
E         Use -v to get more diff

test_outputs.py:9: AssertionError
=========================== short test summary info ============================
FAILED test_outputs.py::test_answers - AssertionError
1 failed, 1 passed in 0.01s"""


def _nested(inner: str) -> str:
    first, *rest = inner.splitlines()
    lines = [f"E           AssertionError: {first}", *(f"E           {line}" for line in rest)]
    return ">           raise AssertionError(result.stdout)\n" + "\n".join(lines)


def test_a_run_inside_a_run_is_unpacked_to_its_assertions() -> None:
    outcome = failure_of_trace("test_legacy_pytest_suite", _nested(_INNER))
    assert [failure.name for failure in outcome.failures] == ["test_answers"]
    assert outcome.failures[0].source == "assert answers['rows'] == gt['rows']"
    assert (outcome.passed_count, outcome.failed_count) == (1, 1)


def test_the_difference_of_two_rows_names_the_field_and_both_values() -> None:
    (failure,) = failure_of_trace("outer", _nested(_INNER)).failures
    (found,) = differences(failure)
    assert (found.kind, found.field) == ("numeric_deviation", "rows[].sum")
    assert (found.expected, found.actual, found.relative_error) == ("5", "4", 0.2)


def test_named_passes_and_counts_are_read() -> None:
    outcome = outcome_of("PASSED t.py::test_a\nt.py::test_b PASSED [50%]\n2 passed in 0.1s")
    assert outcome.passed == ["t.py::test_a", "t.py::test_b"]
    assert outcome.passed_count == 2


def test_an_internal_error_is_a_crash_that_may_still_tell_why() -> None:
    outcome = outcome_of("INTERNALERROR> SystemExit: FAIL: Sheet1!A1 company mismatch")
    assert outcome.crashed
    assert outcome.exits == ["FAIL: Sheet1!A1 company mismatch"]


def _found(source: str, *error: str) -> Difference:
    return differences(Failure("test", source, error))[0]


@pytest.mark.parametrize(
    ("source", "error", "kind", "field", "expected", "actual"),
    [
        # Which side was expected is told by its name.
        ("assert out['a'] == expected['a']", "assert 'x' == 'y'", "value_mismatch", "a", "y", "x"),
        ("assert gt['a'] == out['a']", "assert 'x' == 'y'", "value_mismatch", "a", "x", "y"),
        ("assert out['a'] == 'y'", "assert 'x' == 'y'", "value_mismatch", "a", "y", "x"),
        # Neither side tells: no values rather than wrong ones.
        ("assert one['a'] == two['a']", "assert 'x' == 'y'", "value_mismatch", "a", None, None),
        # The right number as text is a wrong format.
        ("assert out['a'] == expected['a']", "assert '3' == 3", "type_mismatch", "a", "3", "3"),
        ("assert out['a'] == expected['a']", "assert 3 == 4", "numeric_deviation", "a", "4", "3"),
        ("x = out['a']['b']", "KeyError: 'b'", "missing_field", "a.b", None, None),
        (
            "f = open(p)",
            "FileNotFoundError: x: '/r/o.json'",
            "missing_output",
            "o.json",
            None,
            None,
        ),
        ("json.load(f)", "json.decoder.JSONDecodeError: x", "unreadable_output", None, None, None),
        ("s = out['a'] + 1", "TypeError: unsupported", "type_mismatch", "a", None, None),
        ("assert isinstance(out['a'], list)", "assert False", "type_mismatch", "a", None, None),
        ("assert ok", "assert False", "other", None, None, None),
    ],
)
def test_kind_field_and_values(
    source: str,
    error: str,
    kind: str,
    field: str | None,
    expected: str | None,
    actual: str | None,
) -> None:
    found = _found(source, error)
    assert (found.kind, found.field, found.expected, found.actual) == (
        kind,
        field,
        expected,
        actual,
    )


def test_a_distance_is_a_numeric_deviation_with_its_relative_error() -> None:
    found = _found(
        "assert abs(row['sum'] - expected['sum']) <= 0.01",
        "assert 5.0 <= 0.01",
        " +  where 5.0 = abs((15.0 - 10.0))",
    )
    assert (found.kind, found.field, found.relative_error) == ("numeric_deviation", "sum", 0.5)


@pytest.mark.parametrize(
    ("error", "suspect"),
    [
        ("ModuleNotFoundError: No module named 'lxml'", True),
        ("subprocess.CalledProcessError: Command '['ssconvert']' returned 1", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'libreoffice'", True),
        ("AssertionError: wrong", False),
    ],
)
def test_the_verifiers_own_crash_is_suspect(error: str, suspect: bool) -> None:
    assert _found("run()", error).suspect is suspect


@pytest.mark.parametrize(
    ("text", "kind", "field"),
    [
        ("At key 'a': x", "other", None),
        ("Numeric mismatch: 34 vs 32 (tol=0.01)", "numeric_deviation", None),
        ("String mismatch: '' vs '69608A108'", "value_mismatch", None),
        ("Missing required output file: /root/plan.xlsx", "missing_output", "plan.xlsx"),
        ("Missing TEAM column. Found: ['a']", "missing_field", "TEAM"),
        ("font size mismatch: got 0, expected 1600", "numeric_deviation", "font size"),
        ("Expected C5=48.00, got None", "value_mismatch", "C[]"),
        ("Rows must be sorted by date", "order", None),
        ("the moon is full", "other", None),
    ],
)
def test_sentences_of_verifiers(text: str, kind: str, field: str | None) -> None:
    (found,) = said(text)
    assert (found.kind, found.field) == (kind, field)


def test_a_chain_of_keys_is_a_path() -> None:
    found = _found(
        "assert ok", "AssertionError: At key 'a': At index 0: At key 'b': Numeric mismatch: 1 vs 2"
    )
    assert (found.kind, found.field) == ("numeric_deviation", "a[].b")


def test_a_script_that_says_pass_and_fail_fails_where_it_says_fail() -> None:
    found = differences(
        Failure("t", "raise", ("AssertionError: PASS: exists", "FAIL: Sheet1!A1 must be X"))
    )
    assert [(one.kind, one.field) for one in found] == [("value_mismatch", "Sheet1!A[]")]


def test_what_pytest_cut_is_no_value() -> None:
    found = _found("assert out['a'] == expected['a']", "assert {'x', '...9'} == {'x', 'y'}")
    assert (found.kind, found.field, found.actual) == ("value_mismatch", "a", None)


def test_a_set_is_printed_in_order() -> None:
    found = _found("assert out['a'] == expected['a']", "assert {'z', 'x', 'y'} == {'x'}")
    assert (found.actual, found.expected) == ("{'x', 'y', 'z'}", "{'x'}")


def test_a_sheet_keeps_every_word_of_its_name() -> None:
    (found,) = said("Field Asset Book of July #15!A1 company mismatch")
    assert found.field == "Field Asset Book of July #15!A[]"


def test_a_path_that_names_nothing_is_no_field() -> None:
    found = _found(
        "assert texts_in == texts_out", "assert ['a'] == ['b']", "At index 0 diff: 'a' != 'b'"
    )
    assert (found.kind, found.field) == ("value_mismatch", None)


def test_a_cell_is_named_with_its_sheet() -> None:
    found = _found(
        "assert ws['B1'].value == 'Name'",
        "AssertionError: assert None == 'Name'",
        " +  where None = <Cell 'Summary'.B1>.value",
    )
    assert (found.field, found.expected, found.actual) == ("Summary!B[]", "Name", "None")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("AssertionError: Summary exceeds 3 sentences (4)", "Summary exceeds … sentences"),
        ("Caption box should be widened for a label", "Caption box should be widened for a label"),
        ("Status of row 7 must be Approved by Legal", "Status of row … must be …"),
        ("Pool #8100!A2 must include '4310'", "Pool #8100!A2 must include …"),
        ("Bullets must contain: ['North', 'South']", "Bullets must contain"),
        ("FAIL: Missing columns: {'code'}, got ['a', 'b']", None),
        ("assert [1, 2] == [2, 1]", None),
        ("ValueError: not enough values to unpack", None),
        ("(2, 'Glucose', 501.58, 27.87)", None),
        ("Error", None),
        ("", None),
    ],
)
def test_what_the_author_wrote_is_kept_without_its_values(
    message: str, expected: str | None
) -> None:
    assert statement(message) == expected


def test_the_one_name_in_a_tuple_is_the_field() -> None:
    found = _found(
        "assert abs(a - b) <= tol, (i, col, a, b)",
        "AssertionError: (2, 'Glucose', 501.58, 27.87)",
        "assert 473.71 <= 0.03",
        " +  where 473.71 = abs((501.58 - 27.87))",
    )
    assert (found.kind, found.field) == ("numeric_deviation", "Glucose")


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ("assert [r['name'] for r in out['rows']] == names", "rows[].name"),
        ("assert [m['name'] for m in ranking] == names", "[].name"),
        ("assert out['rows'] == rows", "rows[]"),
    ],
)
def test_a_column_read_row_by_row_is_one_field(source: str, field: str) -> None:
    assert _found(source, "assert ['b'] == ['a']", "At index 0 diff: 'b' != 'a'").field == field
