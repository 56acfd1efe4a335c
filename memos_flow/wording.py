"""How lessons and experiences are put into words; the sentences are data (`wording.yaml`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl

from memos_flow.schemas.vocabulary import CHECK_KINDS, EXPERIENCE_TYPES


@dataclass(frozen=True)
class Wording:
    """Sentences with `{placeholders}`, per check kind or experience type."""

    check: Mapping[str, str]
    check_without_field: Mapping[str, str]
    generic_check_words: Sequence[str]
    verification: Mapping[str, str]
    title: Mapping[str, str]
    boundary: Mapping[str, str]
    revealed: str
    verification_of_text: str
    trigger: str
    trigger_domain_only: str
    trigger_files_only: str
    trigger_field: str
    trigger_unknown: str
    trigger_anywhere: str
    title_characters: int
    skill_name: str
    skill_name_characters: int
    skill_line: Mapping[str, str]
    skill_title: str
    skill_candidate: str
    environment: Mapping[str, str]
    cognition_title: str
    cognition_line: Mapping[str, str]
    cognition_lines: int
    trace_steps: int
    step_characters: int

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Raises ValueError where a sentence is missing or not known."""
        wording = cls(**mapping)  # type: ignore[arg-type]
        for name, keys in {
            "check": CHECK_KINDS,
            "check_without_field": CHECK_KINDS,
            "verification": CHECK_KINDS,
            "environment": CHECK_KINDS,
            "title": EXPERIENCE_TYPES,
            "boundary": EXPERIENCE_TYPES,
            "skill_line": ("do", "avoid", "check"),
            "cognition_line": ("facts", "behaviours", "constraints"),
        }.items():
            found = set(getattr(wording, name))
            if found != set(keys):
                raise ValueError(f"wording.{name}: found {sorted(found)}, expected {sorted(keys)}")
        return wording


def sentence(sentences: Mapping[str, str], key: pl.Expr) -> pl.Expr:
    """The sentence of each row's key; null where the key is."""
    return key.cast(pl.String).replace_strict(dict(sentences), default=None, return_dtype=pl.String)


def filled(template: pl.Expr, **values: pl.Expr) -> pl.Expr:
    """The template with each `{name}` replaced; null where a value is."""
    for name, value in values.items():
        # The condition also gives a literal template the length of its values.
        worded = pl.when(value.is_not_null()).then(template)
        template = worded.str.replace(f"{{{name}}}", value, literal=True)
    return template
