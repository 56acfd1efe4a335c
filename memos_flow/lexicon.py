"""The lexicon: what feedback says, by cue, as data in English and Chinese (section 4.2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from memos_flow.schemas.vocabulary import SHAPES

#: A word boundary that Han characters are too: the ASCII one.
_EDGE = r"(?-u:\b)"


class LexiconError(ValueError):
    """The lexicon is not what it should be: the key, what was found and what was expected."""


@dataclass(frozen=True)
class Lexicon:
    """One fused pattern per cue, over lower-case text."""

    cues: Mapping[str, str]
    #: Rules `(find, by)`, each after the one before it, a few together: where none of those finds
    #: anything, none changes anything.
    rewrites: tuple[tuple[tuple[str, str], ...], ...]
    #: What the speaker did not say: `inline_code`, `quotes`, and lines of programs.
    inline_code: str
    quotes: str
    log_lines: str
    error_lines: str
    separators: str
    boilerplate: str
    clause_characters: int
    #: Words with content from which a sentence states something.
    statement_words: int
    boundary_phrases: tuple[str, ...]
    confidence: Mapping[str, tuple[float, float]]

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """From the files of the lexicon by name: `cues`, `quarantine`, `confidence`.

        Raises LexiconError naming the key.
        """
        cues = _section(mapping, "cues")
        quarantine = _section(mapping, "quarantine")
        clause = _section(cues, "clause", "cues")
        unsaid = _section(cues, "unsaid", "cues")
        named = {
            **{name: cues.get(name) for name in _CUES},
            **{name: quarantine.get(name) for name in _QUARANTINE},
        }
        return cls(
            cues={name: _pattern(name, value) for name, value in named.items()},
            rewrites=_in_groups(
                [(str(rule["find"]), str(rule["by"])) for rule in _list(cues, "rewrites")]
            ),
            inline_code="|".join(_strings(unsaid, "inline_code")),
            quotes="|".join(_strings(unsaid, "quotes")),
            log_lines=_line(unsaid, "log_lines") + r"\n?",
            error_lines=_line(unsaid, "error_lines"),
            separators="|".join(_strings(clause, "separators")),
            boilerplate="|".join(_strings(clause, "boilerplate")),
            clause_characters=_whole(clause, "max_characters"),
            statement_words=_whole(clause, "statement_words"),
            boundary_phrases=tuple(_strings(quarantine, "task_boundary")),
            confidence=_confidence(_section(mapping, "confidence")),
        )


_CUES = (
    "confusion",
    "prefer",
    "correct",
    "must",
    "forbid",
    "imperative",
    "once",
    "own_plan",
    "fault",
    "bare_fault",
    "praise",
    "acknowledges",
    "worked",
    "fact",
    "retraction",
    "hedge",
    "empty_words",
)
_QUARANTINE = ("injection", "tampering", "secret")
#: More alternatives than these do not stay in the cache of one automaton, which is slow then.
_RULES_TOGETHER = 6


def any_of(patterns: Iterable[str]) -> str:
    """What matches where any of the patterns does."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def _in_groups(rules: list[tuple[str, str]]) -> tuple[tuple[tuple[str, str], ...], ...]:
    starts = range(0, len(rules), _RULES_TOGETHER)
    return tuple(tuple(rules[start : start + _RULES_TOGETHER]) for start in starts)


def _pattern(name: str, value: Any) -> str:
    """One alternation: English items between ASCII word boundaries, the others anywhere."""
    if not isinstance(value, Mapping) or not set(value) <= {"en", "zh", "any"}:
        raise LexiconError(f"{name}: found {value!r}, expected lists under en, zh or any")
    parts = []
    if value.get("en"):
        words = "|".join(_strings(value, "en"))
        # An item that ends in a sign (what i needed:) has no word boundary behind it.
        parts.append(
            f"{_EDGE}(?:{words})(?:{_EDGE}|$)" if name != "worked" else f"{_EDGE}(?:{words})"
        )
    parts += [item for key in ("zh", "any") if value.get(key) for item in _strings(value, key)]
    return "|".join(parts)


def _line(mapping: Mapping[str, Any], key: str) -> str:
    """The rest of a line that begins so."""
    return rf"(?m)^[ \t]*(?:{'|'.join(_strings(mapping, key))})[^\n]*"


def _section(mapping: Mapping[str, Any], key: str, above: str = "lexicon") -> Mapping[str, Any]:
    value = mapping.get(key)
    if not isinstance(value, Mapping):
        raise LexiconError(f"{above}.{key}: found {value!r}, expected a mapping")
    return value


def _list(mapping: Mapping[str, Any], key: str) -> list[Any]:
    value = mapping.get(key)
    if not isinstance(value, list):
        raise LexiconError(f"{key}: found {value!r}, expected a list")
    return value


def _strings(mapping: Mapping[str, Any], key: str) -> list[str]:
    items = _list(mapping, key)
    wrong = [item for item in items if not isinstance(item, str)]
    if wrong:
        raise LexiconError(f"{key}: found {wrong[0]!r}, expected a text; quote words such as 'no'")
    return items


def _whole(mapping: Mapping[str, Any], key: str) -> int:
    value = mapping.get(key)
    if not isinstance(value, int) or value < 1:
        raise LexiconError(f"{key}: found {value!r}, expected a number of characters")
    return value


def _confidence(mapping: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    if set(mapping) != set(SHAPES):
        raise LexiconError(f"confidence: found {sorted(mapping)}, expected {sorted(SHAPES)}")
    return {
        shape: (float(mapping[shape]["firm"]), float(mapping[shape]["soft"])) for shape in SHAPES
    }
