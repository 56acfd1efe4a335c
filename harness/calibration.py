"""Similarity thresholds for an embedder, from labelled pairs of lessons.

The pairs (``datasets/calibration/lesson_pairs.jsonl``) are written for this project. What they
measure is how well a cosine tells "the same lesson" from "the same words", on purpose with many
hard negatives; a memory meets easier pairs. Opposites ("sort", "do not sort") are kept apart by
the directive sign, not by the cosine, so that thresholds are chosen over pairs of equal sign, and
the curve over all pairs is reported beside it.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from harness.embedders import Embedder
from harness.errors import InputError
from harness.resources import DATASETS

Language = Literal["en", "zh", "mixed"]
Kind = Literal[
    "paraphrase",
    "paraphrase_across_signs",
    "opposite",
    "same_field_different_advice",
    "same_family_different_lesson",
    "different_family",
]
UNEQUAL_SIGN: frozenset[Kind] = frozenset({"opposite", "paraphrase_across_signs"})

# Two decimals are what so few pairs can support. 1.00 is left out: rounding moves the product of a
# vector with itself off 1 (by 0.008 at worst in 256 dimensions), and equal texts must always pass.
GRID = tuple(step / 100 for step in range(100))

# A precision over fewer pairs than this is not taken as reached.
MINIMUM_PAIRS = 20
# Over pairs this hard no embedder at hand reaches 0.95 with MINIMUM_PAIRS accepted.
MERGE_PRECISION = 0.90
CROSS_TYPE_PRECISION = 0.98
VALIDATION_PRECISION = 0.80
ASSOCIATION_PRECISION = 0.70
MARGIN = 0.01
RECALL_QUANTILE = 0.10
SHOWN_THRESHOLDS = tuple(step / 100 for step in range(20, 100, 5))
SHOWN_MISTAKES = 5


@dataclass(frozen=True)
class Pair:
    """Two lessons and whether they say the same. The kind settles sign and relatedness."""

    left: str
    right: str
    language: Language
    kind: Kind
    same_lesson: bool

    @property
    def equal_sign(self) -> bool:
        """Both say do, or both say do not."""
        return self.kind not in UNEQUAL_SIGN

    @property
    def related(self) -> bool:
        """Both come from one family of tasks."""
        return self.kind != "different_family"


@dataclass(frozen=True)
class CurvePoint:
    """Calling every pair at or above ``threshold`` the same lesson.

    ``accepted`` pairs, of which ``correct`` are; ``precision`` = correct / accepted, None where
    nothing is accepted; ``recall`` = correct / all same-lesson pairs of the curve.
    """

    threshold: float
    accepted: int
    correct: int
    precision: float | None
    recall: float


@dataclass(frozen=True)
class Choice:
    """A chosen threshold, the rule that chose it, and its curve at that place.

    The curve is that of the same lesson over pairs of equal sign, except for ``cluster`` and
    ``min_recall``: there it is that of one family over all pairs. ``precision_lower`` is the
    lower end of the two-sided 95% Wilson interval. It is still optimistic, because the
    threshold was chosen on the pairs that it is judged by.
    """

    name: str
    threshold: float
    rule: str
    accepted: int
    correct: int
    precision: float | None
    precision_lower: float | None
    recall: float


@dataclass(frozen=True)
class Calibration:
    """What ``calibrate`` found. ``similarities`` is in the order of ``pairs``."""

    embedder: str
    pairs: tuple[Pair, ...]
    similarities: tuple[float, ...]
    equal_sign: tuple[CurvePoint, ...]
    all_signs: tuple[CurvePoint, ...]
    choices: tuple[Choice, ...]

    @property
    def thresholds(self) -> dict[str, float]:
        """The mapping ``similarity`` of the embedder's file in ``conf/embedder``."""
        return {choice.name: choice.threshold for choice in self.choices}


def lesson_pairs_file() -> Path:
    """The project's pairs, in an installed package or in the source tree."""
    return DATASETS / "calibration" / "lesson_pairs.jsonl"


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """The pairs of a JSONL file, one object a line. Raises ``InputError`` with the line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_pair(path, number, line) for number, line in enumerate(lines, start=1))


def _pair(path: Path, number: int, line: str) -> Pair:
    place = f"line {number}"
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(path, f"not JSON ({error})", field=place) from error
    names = [field.name for field in fields(Pair)]
    if not isinstance(row, dict) or sorted(row) != sorted(names):
        raise InputError(path, "wrong keys", field=place, found=row, expected=f"{names}")
    choices = {"language": get_args(Language), "kind": get_args(Kind), "same_lesson": (True, False)}
    for name, allowed in choices.items():
        if row[name] not in allowed:
            raise InputError(
                path, f"wrong {name}", field=place, found=row[name], expected=f"one of {allowed}"
            )
    return Pair(**row)


def pair_similarities(embedder: Embedder, pairs: Sequence[Pair]) -> tuple[float, ...]:
    """The similarity of each pair, rounded to 6 decimals as in the memory."""
    left = embedder.embed([pair.left for pair in pairs]).astype(np.float64)
    right = embedder.embed([pair.right for pair in pairs]).astype(np.float64)
    return tuple(float(value) for value in np.round((left * right).sum(axis=1), 6))


def precision_recall(
    similarities: Sequence[float], same_lesson: Sequence[bool]
) -> tuple[CurvePoint, ...]:
    """The curve over ``GRID``. Recall is 0 where there is no same-lesson pair to find."""
    values = np.asarray(similarities, dtype=np.float64)
    same = np.asarray(same_lesson, dtype=bool)
    return tuple(_point(threshold, values >= threshold, same) for threshold in GRID)


def _point(threshold: float, accepted: NDArray[np.bool_], same: NDArray[np.bool_]) -> CurvePoint:
    count, correct = int(accepted.sum()), int((accepted & same).sum())
    return CurvePoint(
        threshold=threshold,
        accepted=count,
        correct=correct,
        precision=correct / count if count else None,
        recall=correct / max(int(same.sum()), 1),
    )


def lowest_with_precision(
    curve: Sequence[CurvePoint], precision: float, minimum_pairs: int = MINIMUM_PAIRS
) -> float | None:
    """The lowest threshold that reaches the precision with enough accepted pairs, else None."""
    reached = (
        point.threshold
        for point in curve
        if point.precision is not None
        and point.precision >= precision
        and point.accepted >= minimum_pairs
    )
    return next(reached, None)


def above_every_negative(similarities: Sequence[float], same_lesson: Sequence[bool]) -> float:
    """The first threshold at least ``MARGIN`` above every different-lesson pair seen."""
    negatives = [value for value, same in zip(similarities, same_lesson, strict=True) if not same]
    # Rounded, because 0.95 + 0.01 is a little more than 0.96 in floating point.
    bound = round(max(negatives, default=0.0) + MARGIN, 6)
    return next((threshold for threshold in GRID if threshold >= bound), GRID[-1])


def best_separation(similarities: Sequence[float], positive: Sequence[bool]) -> float:
    """The lowest threshold with the largest Youden index.

    That is the share of positive pairs at or above the threshold, minus the same share of
    negative pairs (Youden, 1950): unlike precision, it does not depend on how many pairs of
    each sort somebody wrote. Needs one pair of each at least.
    """
    values = np.asarray(similarities, dtype=np.float64)
    labels = np.asarray(positive, dtype=bool)

    def youden(threshold: float) -> float:
        accepted = values >= threshold
        return round(float(accepted[labels].mean() - accepted[~labels].mean()), 9)

    return max(GRID, key=youden)


def low_quantile(similarities: Sequence[float], quantile: float) -> float:
    """The highest threshold that keeps at least ``1 - quantile`` of the values, 0 at least."""
    kept = math.ceil((1 - quantile) * len(similarities) - 1e-9)
    smallest_kept = sorted(similarities, reverse=True)[kept - 1]
    return max(threshold for threshold in GRID if threshold <= max(smallest_kept, 0.0))


def wilson_lower(correct: int, accepted: int) -> float | None:
    """Lower end of the two-sided 95% Wilson score interval of a share; None of nothing."""
    if accepted == 0:
        return None
    z = 1.959964
    share = correct / accepted
    centre = share + z * z / (2 * accepted)
    spread = z * math.sqrt(share * (1 - share) / accepted + z * z / (4 * accepted**2))
    return (centre - spread) / (1 + z * z / accepted)


def calibrate(embedder: Embedder, pairs: Sequence[Pair]) -> Calibration:
    """Both curves and the six thresholds, each with its rule.

    ``merge``, ``cross_type``, ``validation`` and ``association`` take the lowest threshold that
    reaches their precision over pairs of equal sign, with at least ``MINIMUM_PAIRS`` accepted;
    where none does, the embedder cannot tell at that precision, and only what is closer than
    every different-lesson pair passes. A missed merge costs a duplicate, a wrong one a lesson.
    ``cross_type`` is never below ``merge``. ``cluster`` separates pairs of one family from pairs
    of two; ``min_recall`` keeps nine of ten pairs of one family, whatever their sign.
    """
    similarities = pair_similarities(embedder, pairs)
    equal = [
        (value, pair.same_lesson)
        for value, pair in zip(similarities, pairs, strict=True)
        if pair.equal_sign
    ]
    values, same = [value for value, _ in equal], [label for _, label in equal]
    curve = precision_recall(values, same)
    fallback = above_every_negative(values, same)
    related = [pair.related for pair in pairs]
    related_values = [value for value, label in zip(similarities, related, strict=True) if label]
    related_curve = precision_recall(similarities, related)

    merge = _by_precision("merge", curve, MERGE_PRECISION, fallback)
    cross_type = _by_precision("cross_type", curve, CROSS_TYPE_PRECISION, fallback)
    if cross_type.threshold < merge.threshold:
        cross_type = _choice("cross_type", curve, merge.threshold, "not below merge")
    choices = (
        merge,
        cross_type,
        _by_precision("validation", curve, VALIDATION_PRECISION, fallback),
        _by_precision("association", curve, ASSOCIATION_PRECISION, fallback),
        _choice(
            "cluster",
            related_curve,
            best_separation(similarities, related),
            "one family: largest Youden index",
        ),
        _choice(
            "min_recall",
            related_curve,
            low_quantile(related_values, RECALL_QUANTILE),
            f"one family: keeps {1 - RECALL_QUANTILE:.0%} of the pairs",
        ),
    )
    return Calibration(
        embedder=embedder.name,
        pairs=tuple(pairs),
        similarities=similarities,
        equal_sign=curve,
        all_signs=precision_recall(similarities, [pair.same_lesson for pair in pairs]),
        choices=choices,
    )


def _by_precision(
    name: str, curve: Sequence[CurvePoint], precision: float, fallback: float
) -> Choice:
    threshold = lowest_with_precision(curve, precision)
    if threshold is None:
        rule = f"precision {precision:.2f} not reached: above every different-lesson pair"
        return _choice(name, curve, fallback, rule)
    return _choice(name, curve, threshold, f"lowest with precision {precision:.2f}")


def _choice(name: str, curve: Sequence[CurvePoint], threshold: float, rule: str) -> Choice:
    point = next(point for point in curve if point.threshold == threshold)
    return Choice(
        name=name,
        threshold=threshold,
        rule=rule,
        accepted=point.accepted,
        correct=point.correct,
        precision=point.precision,
        precision_lower=wilson_lower(point.correct, point.accepted),
        recall=point.recall,
    )


def worst_mistakes(calibration: Calibration) -> dict[str, list[tuple[float, Pair]]]:
    """Of the pairs of equal sign: the most similar different ones, the least similar same ones."""
    scored = sorted(
        (
            (value, pair)
            for value, pair in zip(calibration.similarities, calibration.pairs, strict=True)
            if pair.equal_sign
        ),
        key=lambda item: (item[0], item[1].left, item[1].right),
    )
    same = [item for item in scored if item[1].same_lesson]
    different = [item for item in reversed(scored) if not item[1].same_lesson]
    return {
        "different_but_similar": different[:SHOWN_MISTAKES],
        "same_but_dissimilar": same[:SHOWN_MISTAKES],
    }


def main_report(embedder: Embedder, pairs_file: Path | None = None) -> tuple[str, dict[str, Any]]:
    """The calibration of an embedder for a terminal, and the same facts for machines.

    Reads the project's own pairs unless ``pairs_file`` names others. Raises ``InputError`` for
    a malformed file.
    """
    calibration = calibrate(embedder, read_pairs(pairs_file or lesson_pairs_file()))
    facts: dict[str, Any] = {
        "embedder": calibration.embedder,
        "pairs": dict(Counter(pair.kind for pair in calibration.pairs)),
        "similarity": calibration.thresholds,
        "choices": [asdict(choice) for choice in calibration.choices],
        "curve_equal_sign": [asdict(point) for point in calibration.equal_sign],
        "curve_all_signs": [asdict(point) for point in calibration.all_signs],
        "mistakes": {
            name: [{"similarity": value, **asdict(pair)} for value, pair in items]
            for name, items in worst_mistakes(calibration).items()
        },
    }
    return _rendered(calibration), facts


def _rendered(calibration: Calibration) -> str:
    kinds = Counter(pair.kind for pair in calibration.pairs)
    languages = Counter(pair.language for pair in calibration.pairs)
    sections = [
        f"Embedder {calibration.embedder}: {len(calibration.pairs)} pairs "
        f"({_counts(languages)}; {_counts(kinds)})",
        _rendered_curves(calibration),
        _rendered_choices(calibration),
        _rendered_mistakes(calibration),
        "\n".join(
            ["similarity:"]
            + [f"  {name}: {value:.2f}" for name, value in calibration.thresholds.items()]
        ),
    ]
    return "\n\n".join(sections) + "\n"


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.items())


def _share(value: float | None) -> str:
    return "   -" if value is None else f"{value:.2f}"


def _rendered_curves(calibration: Calibration) -> str:
    lines = [
        "Same lesson    equal sign                    all pairs",
        "threshold      precision         recall      precision         recall",
    ]
    for equal, every in zip(calibration.equal_sign, calibration.all_signs, strict=True):
        if equal.threshold in SHOWN_THRESHOLDS:
            columns = [
                f"{_share(point.precision)} ({point.correct}/{point.accepted})".ljust(18)
                + f"{point.recall:.2f}".ljust(12)
                for point in (equal, every)
            ]
            lines.append(f"{equal.threshold:.2f}           {''.join(columns)}".rstrip())
    return "\n".join(lines)


def _rendered_choices(calibration: Calibration) -> str:
    lines = [
        "Chosen on these same pairs, so the precision of new pairs will be lower.",
        f"{'name':<12}{'value':<7}{'precision':<18}{'at least':<10}{'recall':<8}rule",
    ]
    lines += [
        f"{choice.name:<12}{choice.threshold:<7.2f}"
        + f"{_share(choice.precision)} ({choice.correct}/{choice.accepted})".ljust(18)
        + f"{_share(choice.precision_lower):<10}{choice.recall:<8.2f}{choice.rule}"
        for choice in calibration.choices
    ]
    return "\n".join(lines)


def _rendered_mistakes(calibration: Calibration) -> str:
    titles = {
        "different_but_similar": "Different lessons that look most alike:",
        "same_but_dissimilar": "Same lessons that look least alike:",
    }
    lines: list[str] = []
    for name, items in worst_mistakes(calibration).items():
        lines.append(titles[name])
        lines += [f"  {value:5.2f}  {pair.left}  |  {pair.right}" for value, pair in items]
    return "\n".join(lines)
