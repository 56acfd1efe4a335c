"""The scripted agent: a simulation of a language model with faults, and no model at all.

What it is inclined to do wrong is drawn from seed, task and step, never from the packet, so that
lanes that differ in their memory stay paired. What it reads then changes whether the fault shows:
it follows the notes that it understands, wrong ones too, and the longer the packet, the fewer of
its lines it takes in. Beside the task it knows the packet's text and the names in the last answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from harness.embedders import Embedder
from harness.kit import (
    SCHEMA_STEP,
    Family,
    Files,
    answered,
    ways_of,
    written,
)
from memos_flow.classify import understood
from memos_flow.injection import FENCE_CLOSE, HEADINGS
from memos_flow.lexicon import Lexicon
from memos_flow.texts import content_id

#: Words that forbid: what is left of the sentence says what is forbidden.
_NEGATION = re.compile(
    r"(?i)\b(?:please\s+)?(?:do not|don't|never|avoid|must not|should not|stop|no longer|not)\b"
    r"|不要|别再|别|切勿|请勿|禁止|避免|不能|不得|不应|不该"
)
_CONTRAST = re.compile(
    r"(?i),?\s+(?:instead of|rather than)\s|,\s*not\s|[，,]?\s*(?:而不是|而非)|[，,]\s*不是"
)
_CORRECTED = re.compile(
    r"(?i)\b(?:it|that|this|which|and)?\s*should (?:be|have been)\b|应该?是|应为"
)
#: Sentences that say what is not, or not to be done.
_NEGATED = re.compile(
    r"(?i)\b(?:not|never|no|nor|none|cannot|avoid|without|stop|forbidden)\b|n't\b|不|别|勿|未|非|禁止|避免|没"
)
#: What the similarity to a sentence of the other kind counts less.
_OTHER_KIND = 0.15
#: What naming a column of a step adds to the similarity.
_NAMED = 0.15
#: Shorter field names are words of any sentence.
_FIELD_LENGTH = 4


@dataclass(frozen=True)
class Traits:
    """How the simulated agent is made; all of it is in `conf/agent/scripted.yaml`."""

    #: Probability that the agent of a seed is weak at a step, in all tasks.
    weakness: float
    #: Probability of an inclination to a wrong way in a task, at a step it is weak at, and else.
    inclination_where_weak: float
    inclination: float
    #: Cosine from which a sentence is understood as speaking of a way.
    understands: float
    #: Characters of a packet that are read for sure; of a longer one a share of its lines.
    attention_characters: int


@dataclass(frozen=True)
class Note:
    """One line of a packet, under the heading that it stands beneath."""

    section: str
    text: str


@dataclass(frozen=True)
class Attempt:
    """What the agent did: the file it wrote, its steps, which faults showed in them, and which of
    those a line of the packet led it to."""

    output: str
    faults: tuple[str, ...]
    misled: tuple[str, ...]
    steps: tuple[str, ...]
    read: int


@dataclass
class Reader:
    """What the agent understands of a sentence: the way that it is most similar to, and whether it
    tells to take it. One per run: sentences and ways are embedded once."""

    embedder: Embedder
    lexicon: Lexicon
    understands: float
    _vectors: dict[str, Any] = field(default_factory=dict)
    _clauses: dict[str, list[tuple[str, str | None]]] = field(default_factory=dict)
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def learn(self, texts: Iterable[str]) -> None:
        """Take in texts together: cheaper than one by one, and with the same result."""
        new = sorted({text for text in texts if text not in self._clauses})
        if not new:
            return
        frame = pl.DataFrame(
            {"text_id": range(len(new)), "text": [text.replace("; then ", ". ") for text in new]}
        )
        _, found = understood(frame, self.lexicon)
        self._clauses |= {text: [] for text in new}
        for number, clause, sign in found.select("text_id", "clause", "directive_sign").rows():
            self._clauses[new[number]].append((clause, sign))
        said = [clause for text in new for clause, _ in self._clauses[text]]
        self._embed([*said, *map(_content, said)])

    def understood(
        self, note: Note, family: Family, steps: Iterable[str]
    ) -> list[tuple[str, str | None, bool]]:
        """`(step, way, take it)` of each sentence of the note that speaks of one of the steps; null
        instead of a way where it only says that the step goes wrong.

        The nearest of the sentences that the agent knows decides. Sentences with a negation are
        held against those with one, others against others; held against one of the other kind,
        without its negation and at a discount, a sentence tells the opposite.
        """
        self.learn([note.text])
        steps = list(steps)
        told: list[tuple[str, str | None, bool]] = []
        for clause, sign in self._clauses[note.text]:
            advice = _advice(clause)
            negated = _NEGATED.search(advice) is not None
            found = [
                (similarity - discount, step, way, take)
                for text, of_kind, take, discount in (
                    (advice, negated, True, 0.0),
                    (_content(advice), not negated, False, _OTHER_KIND),
                )
                for similarity, step, way in self._nearest(text, of_kind, family, steps)
            ]
            best = max(found, default=None)
            if best is None or best[0] < self.understands:
                continue
            _, step, way, take = best
            # A bare fact under a warning says that the step matters, not which way is right.
            warns = sign is None and note.section in ("avoid", "check")
            told.append((step, None if warns else way, take))
        return told

    def _nearest(
        self, text: str, negated: bool, family: Family, steps: Sequence[str]
    ) -> Iterator[tuple[float, str, str]]:
        """Each way with its similarity to the text: that of its nearest known sentence."""
        self._embed([text])
        vector = self._vectors[text]
        for step in steps:
            named = any(
                re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
                for name in family.fields.get(step, ())
            )
            for way, about in ways_of(family, step).items():
                known = (about.does, about.trace, *about.says)
                sentences = tuple(
                    one for one in known if (_NEGATED.search(one) is not None) == negated
                )
                if sentences:
                    similarity = float((self._matrix(sentences) @ vector).max())
                    yield similarity + _NAMED * named, step, way

    def _matrix(self, sentences: tuple[str, ...]) -> Any:
        if sentences not in self._known:
            self._embed(sentences)
            self._known[sentences] = np.stack([self._vectors[text] for text in sentences])
        return self._known[sentences]

    def _embed(self, texts: Iterable[str]) -> None:
        new = sorted({text for text in texts if text not in self._vectors})
        if new:
            self._vectors |= dict(zip(new, self.embedder.embed(new), strict=True))


def _content(clause: str) -> str:
    return " ".join(_NEGATION.sub(" ", clause).split())


def _advice(clause: str) -> str:
    """What a sentence tells to do, without what it sets against it: `X, not Y` is X, and of
    `X, it should be Y` it is Y."""
    kept = _CONTRAST.split(clause, maxsplit=1)[0]
    after = _CORRECTED.split(kept, maxsplit=1)[-1]
    return (after if after.strip() else kept).strip(" ,，:：") or clause


def notes_of(packet: str) -> Iterator[Note]:
    """The lines of a packet that advise, under what they stand. A skill's lines say themselves what
    they are. Past steps and facts about the environment are told, but advise nothing."""
    section = ""
    headings = {heading: name for name, heading in HEADINGS.items()}
    for line in packet.splitlines():
        if line == FENCE_CLOSE:
            return
        section = headings.get(line, section)
        if not line.startswith("- ") or section in ("traces", "environment"):
            continue
        text = line[2:]
        if section == "skills" and text.startswith("Skill"):
            continue
        kind = next((name for name in ("Avoid", "Check") if text.startswith(f"{name}: ")), None)
        if section == "skills":
            yield Note(kind.lower() if kind else "do", text.removeprefix(f"{kind}: "))
        else:
            yield Note(section, text)


def attempt(
    family: Family,
    task: str,
    files: Files,
    recomputed: Any,
    packet: str,
    previous_names: Sequence[str],
    seed: int,
    traits: Traits,
    reader: Reader,
) -> Attempt:
    """Do the task. `recomputed`: the answer by the agent's second method, used where a note asks
    to check a field of it."""
    about = family.tasks[task]
    ways = _inclined(family, task, previous_names, seed, traits)
    notes = [note for note in notes_of(packet) if _attends(note, packet, task, seed, traits)]
    checked: list[str] = []
    settled: set[str] = set()
    misleading: set[str] = set()
    for note in notes:
        named = _named_fields(note, recomputed) if note.section == "check" else []
        checked += named
        if named:
            continue
        for step, way, take in reader.understood(note, family, about.right):
            if step in settled:
                continue
            if way is None:
                ways[step] = _inclined_at(family, task, step, previous_names, seed, traits, 0.0)
                continue
            ways[step] = way if take else _other(family, step, way, ways[step], task, seed)
            settled.add(step)
            if take == (way != about.right[step]):
                misleading.add(step)
    answer = answered(family, task, files, ways, previous_names)
    for name in checked:
        answer = _checked(answer, recomputed, name.split("."))
    wrong = {step: f"{step}:{way}" for step, way in ways.items() if way != about.right[step]}
    misled = tuple(fault for step, fault in wrong.items() if step in misleading)
    steps = tuple(ways_of(family, step)[way].trace for step, way in ways.items())
    return Attempt(written(about.output, answer), tuple(wrong.values()), misled, steps, len(notes))


def _inclined(
    family: Family, task: str, previous_names: Sequence[str], seed: int, traits: Traits
) -> dict[str, str]:
    return {
        step: _inclined_at(
            family,
            task,
            step,
            previous_names,
            seed,
            traits,
            family.difficulty.get(step, traits.weakness),
        )
        for step in family.tasks[task].right
    }


def _inclined_at(
    family: Family,
    task: str,
    step: str,
    previous_names: Sequence[str],
    seed: int,
    traits: Traits,
    weakness: float,
) -> str:
    """The way the agent is inclined to: a warned agent has no weakness at the step."""
    right = family.tasks[task].right[step]
    wrong = [way for way in ways_of(family, step) if way != right]
    if step == SCHEMA_STEP and not previous_names:
        return right
    weak = _chance("weakness", seed, step) < weakness
    rate = traits.inclination_where_weak if weak else traits.inclination
    if _chance("inclination", seed, task, step) >= rate:
        return right
    return wrong[_draw(len(wrong), "way", seed, task, step)]


def _attends(note: Note, packet: str, task: str, seed: int, traits: Traits) -> bool:
    share = traits.attention_characters / max(len(packet), 1)
    return _chance("attention", seed, task, note.text) < share


def _other(family: Family, step: str, shunned: str, current: str, task: str, seed: int) -> str:
    """The way taken where a note forbids one: the inclination, unless that is what is forbidden."""
    if current != shunned:
        return current
    others = [way for way in ways_of(family, step) if way != shunned]
    return others[_draw(len(others), "other", seed, task, step)]


def _chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return (content_id(*parts) & (2**53 - 1)) / 2**53


def _draw(count: int, *parts: object) -> int:
    return int(_chance(*parts) * count)


def _named_fields(note: Note, answer: Any) -> list[str]:
    """The fields of this task's answer that a note names, by path or by their own name."""
    named = []
    for path in fields_of(answer):
        own = path.rsplit(".", 1)[-1].removesuffix("[]")
        words = [path, *([own] if len(own) >= _FIELD_LENGTH else [])]
        if any(re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", note.text) for word in words):
            named.append(path)
    return named


def fields_of(answer: Any, path: str = "") -> list[str]:
    """The paths of an answer's fields, list indices as `[]`, in the order of the answer."""
    if isinstance(answer, Mapping):
        below = [
            found
            for name, value in answer.items()
            for found in fields_of(value, f"{path}.{name}" if path else name)
        ]
        return [*([path] if path else []), *below]
    if isinstance(answer, list):
        below = [found for value in answer for found in fields_of(value, f"{path}[]")]
        return list(dict.fromkeys([*([path] if path else []), *below]))
    return [path]


def _checked(answer: Any, right: Any, steps: Sequence[str]) -> Any:
    """The answer with one field as the second method has it."""
    if not steps:
        return right
    name = steps[0].removesuffix("[]") if steps[0] else ""
    if isinstance(right, list):
        # Rows: each with its own counterpart, where there are as many.
        rows = answer if isinstance(answer, list) and len(answer) == len(right) else None
        inner = steps[1:] if not name else steps
        if rows is None or not inner:
            return right
        return [_checked(one, other, inner) for one, other in zip(rows, right, strict=True)]
    if not isinstance(answer, Mapping) or name not in right:
        return answer
    return {
        **answer,
        name: _checked(answer.get(name, right[name]), right[name], steps[1:]),
    }
