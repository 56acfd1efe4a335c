"""Verifier payloads: what rewards, counts and verdicts say, and what they do not (section 4.1)."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memos_flow.schemas.executions import FULL_PASS

#: `reward` or `score`, also of a part: `reward_format`, `style_score`. A `rating` has no scale.
_REWARD = re.compile(r"^(?:reward|score)(?:_|$)|_(?:reward|score)$")
_BOOLEANS = {"true": True, "false": False}
#: What a crashed or skipped verifier says is no verdict.
_VERDICTS = {
    **_BOOLEANS,
    **dict.fromkeys(("pass", "passed", "success", "succeeded", "ok", "correct"), True),
    **dict.fromkeys(("fail", "failed", "failure", "partial", "incorrect", "wrong"), False),
}
_TEXTS = ("text", "message", "feedback")


@dataclass(frozen=True)
class Payload:
    """What a payload says: its outcome and the severity of a fail, the words in it, its checks.

    `outcome`: pass, fail, none where its parts contradict each other, null where it says nothing
    about the outcome.
    """

    outcome: str | None = None
    severity: float | None = None
    text: str | None = None
    checks: tuple[Mapping[str, Any], ...] = ()


def payload_of(raw: Any) -> Payload:
    """An object or a JSON string, with its verdict at the top or under `verifier`.

    Text that is no JSON says only its words. Where the parts of a payload contradict each other
    (5 of 4 passed, a full reward beside failed checks) it has no verdict.
    """
    value = parsed(raw) if isinstance(raw, str) else raw
    if not isinstance(value, Mapping):
        return Payload(text=raw if isinstance(raw, str) and raw.strip() else None)
    inner = value.get("verifier")
    if isinstance(inner, str):
        inner = parsed(inner)
    # Null is absent, so what the verifier left open may be said at the top.
    inside = {} if not isinstance(inner, Mapping) else _present(inner)
    told = {**_present(value), **inside}
    outcome, severity = _verdict(told)
    checks = told.get("checks")
    return Payload(
        outcome=outcome,
        severity=severity,
        text=next((told[key] for key in _TEXTS if isinstance(told.get(key), str)), None),
        checks=tuple(row for row in checks if isinstance(row, Mapping))
        if isinstance(checks, list)
        else (),
    )


def reward_of(rewards: Any) -> float | None:
    """A reward, or several by name: `reward` counts, else the only one, else all must be full
    (then 1, else 0). None where there is none."""
    if not isinstance(rewards, Mapping):
        return finite(rewards)
    values = {
        key: number for key, value in rewards.items() if (number := finite(value)) is not None
    }
    if "reward" in values:
        return values["reward"]
    if len(values) == 1:
        return next(iter(values.values()))
    return float(all(value >= FULL_PASS for value in values.values())) if values else None


def finite(value: Any) -> float | None:
    """The number, also where it is written as text; a boolean is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and not isinstance(value, bool) else None


def parsed(text: str | None) -> Any:
    """The JSON value in the text, None where it is not JSON."""
    try:
        return json.loads(text) if text else None
    except (json.JSONDecodeError, RecursionError):
        return None


def _present(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None}


def _verdict(told: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The outcome, and how severe a fail is: 1 - passed/total, else 1 - reward, else 1."""
    rewards = told.get("rewards", {key: told[key] for key in told if _REWARD.search(key)})
    reward = reward_of(rewards)
    count, total = finite(told.get("passed")), finite(told.get("total"))
    if total is not None and (total <= 0 or (count is not None and not 0 <= count <= total)):
        return "none", None
    share = None if count is None or total is None else count / total
    signs = {
        *([] if reward is None else [reward >= FULL_PASS]),
        *([] if share is None else [share == 1]),
        *_said(_BOOLEANS, told.get("passed")),
        *_said(_VERDICTS, told.get("verdict")),
    }
    if len(signs) != 1:
        return ("none" if signs else None), None
    if signs == {True}:
        return "pass", 0.0
    achieved = next((part for part in (share, reward) if part is not None), 0.0)
    return "fail", min(1.0, max(0.0, 1 - achieved))


def _said(words: Mapping[str, bool], value: Any) -> list[bool]:
    sign = words.get(str(value).strip().lower())
    return [] if sign is None else [sign]
