"""From pytest's output to the assertions that failed, nested runs unpacked.

SkillFlow tasks run their real tests by a pytest inside a pytest: the outer failure's message is the
inner run's whole output. What is read here is text written for people, so everything is a match of
a known form, and what matches none stays unknown.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: `E   ` before each line of an error; a nested run carries one such prefix per level.
_ERROR_PREFIX = re.compile(r"^E(?:\s{3}|$)")
_SECTION = re.compile(r"^_{3,} (?:ERROR (?:at \w+ of|collecting) )?(.+?) _{3,}\s*$")
_BAR = re.compile(r"^={3,} .* ={3,}\s*$")
_COUNTS = re.compile(r"(\d+) (failed|passed|errors?|skipped|xfailed|xpassed)\b")
_EXIT = re.compile(r"INTERNALERROR> SystemExit: (.+)$")
_CLOSING = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s\b.*$")
_NAMED_PASS = re.compile(r"^(?:PASSED (\S+::\S+)|(\S+::\S+) PASSED\b)")


@dataclass(frozen=True)
class Failure:
    """One failing test: the source line at fault and the lines of its error, prefixes removed."""

    name: str
    source: str
    error: tuple[str, ...]


@dataclass
class Outcome:
    """What a pytest run tells: failures, names of passed tests where printed, and the counts."""

    failures: list[Failure] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    passed_count: int = 0
    failed_count: int = 0
    #: The run broke down with an internal error.
    crashed: bool = False
    #: What a script-like test said on its way out of a run that broke down (`SystemExit: FAIL: x`).
    exits: list[str] = field(default_factory=list)


def outcome_of(text: str) -> Outcome:
    """The outcome that a pytest run's output tells; nested runs replace the tests that ran them."""
    outcome = Outcome()
    lines = text.splitlines()
    outcome.crashed = any("INTERNALERROR>" in line for line in lines)
    outcome.exits = [match.group(1).strip() for match in map(_EXIT.search, lines) if match]
    for failure in _failures(lines):
        nested = _nested(failure)
        if nested is None:
            outcome.failures.append(failure)
            continue
        outcome.failures += nested.failures
        outcome.passed += nested.passed
        outcome.crashed |= nested.crashed
        outcome.exits += nested.exits
        outcome.passed_count += nested.passed_count
        # The outer test is no test of its own.
        outcome.failed_count += nested.failed_count - 1
    outcome.passed += [
        (match.group(1) or match.group(2)) for match in map(_NAMED_PASS.match, lines) if match
    ]
    counts = _closing_counts(lines)
    outcome.passed_count += counts.get("passed", 0)
    outcome.failed_count += counts.get("failed", 0) + counts.get("error", 0)
    return outcome


def failure_of_trace(name: str, trace: str) -> Outcome:
    """The outcome that one failing test's trace tells, as in a CTRF report."""
    failure = _failure(name, trace.splitlines())
    nested = _nested(failure)
    return nested or Outcome(failures=[failure], failed_count=1)


def _failures(lines: list[str]) -> Iterator[Failure]:
    """The sections under FAILURES and ERRORS."""
    name, body, inside = "", list[str](), False
    for line in lines:
        if _BAR.match(line):
            if inside and name:
                yield _failure(name, body)
            title = line.strip("= \n")
            name, body, inside = "", [], title in ("FAILURES", "ERRORS")
            continue
        section = _SECTION.match(line) if inside else None
        if section:
            if name:
                yield _failure(name, body)
            name, body = section.group(1), []
        elif inside:
            body.append(line)
    if inside and name:
        yield _failure(name, body)


def _failure(name: str, body: list[str]) -> Failure:
    """Of several frames the last marked line is the one at fault."""
    marked = [line[1:].strip() for line in body if line.startswith(">")]
    error = [_ERROR_PREFIX.sub("", line) for line in body if _ERROR_PREFIX.match(line)]
    shift = min((len(line) - len(line.lstrip()) for line in error if line.strip()), default=0)
    return Failure(name, marked[-1] if marked else "", tuple(line[shift:] for line in error))


def _nested(failure: Failure) -> Outcome | None:
    """The inner run, where the error is the output of one."""
    has_summary = any("short test summary info" in line for line in failure.error)
    has_sections = any(_BAR.match(line.strip()) for line in failure.error)
    internal = any("INTERNALERROR>" in line for line in failure.error)
    if not ((has_summary and has_sections) or internal):
        return None
    inner = outcome_of("\n".join(_unshifted(failure)))
    return inner if inner.failures or inner.crashed else None


def _unshifted(failure: Failure) -> list[str]:
    """The inner run's lines as it printed them: the first line stood behind the exception's name,
    the others are indented by what the outer run added."""
    first, *rest = failure.error
    indents = [len(line) - len(line.lstrip()) for line in rest if _BAR.match(line.strip())]
    shift = min(indents, default=0)
    return [first.partition(": ")[2], *(line[shift:] for line in rest)]


def _closing_counts(lines: list[str]) -> dict[str, int]:
    """`2 failed, 5 passed in 0.1s`: the last such line."""
    closing = [line for line in lines if _CLOSING.match(line.strip())]
    if not closing:
        return {}
    return {word.rstrip("s"): int(number) for number, word in _COUNTS.findall(closing[-1])}
