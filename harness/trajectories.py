"""Agent trajectories (ATIF) as thought, action and observation of each step."""

import json
import re
from typing import Any

from memos_flow.texts import content_id

#: Characters kept of a thought, an action or an observation: its head and its tail.
_LENGTH = 2000
_EXIT_CODE = re.compile(r"(?i)\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+([1-9]\d{0,2})\b")
_EXCEPTION = re.compile(r"(?m)^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Interrupt))(?::|$)")


def trajectory_rows(
    trajectory: Any, execution_id: int, texts: dict[str, None]
) -> list[dict[str, Any]]:
    """Rows of schema Trajectories for the agent's steps; their texts are added to `texts`."""
    steps = trajectory.get("steps") if isinstance(trajectory, dict) else None
    if not isinstance(steps, list):
        return []
    own = [step for step in steps if isinstance(step, dict) and step.get("source") == "agent"]
    rows = []
    for position, step in enumerate(own):
        calls = [call for call in step.get("tool_calls") or [] if isinstance(call, dict)]
        observed = _observation(step)
        told = {
            "thought": step.get("reasoning_content") or step.get("message"),
            "action": "; ".join(map(_call, calls)),
            "observation": observed,
        }
        ids = {
            f"{name}_text_id": _kept(value, texts) if value else None
            for name, value in told.items()
        }
        rows.append(
            {
                "execution_id": execution_id,
                "position": position,
                **ids,
                "tool": calls[0].get("function_name") if calls else None,
                "error_code": _error_code(observed),
                "signature": None,
                "alpha": None,
            }
        )
    return rows


def _call(call: dict[str, Any]) -> str:
    """`tool: arguments`; a single argument stands for itself."""
    arguments = call.get("arguments")
    if isinstance(arguments, dict):
        values = list(arguments.values())
        arguments = arguments.get("command") or (
            values[0] if len(values) == 1 else json.dumps(arguments, ensure_ascii=False)
        )
    return f"{call.get('function_name')}: {arguments}"


def _observation(step: dict[str, Any]) -> str:
    results = (step.get("observation") or {}).get("results") or []
    return "\n".join(
        str(result.get("content") or "") for result in results if isinstance(result, dict)
    ).strip()


def _error_code(observed: str) -> str | None:
    """The exception that a traceback ends with, or a non-zero exit code."""
    if "Traceback (most recent call last)" in observed:
        raised = _EXCEPTION.findall(observed)
        if raised:
            return str(raised[-1])
    code = _EXIT_CODE.search(observed)
    return f"exit {code.group(1)}" if code else None


def _kept(value: object, texts: dict[str, None]) -> int:
    text = str(value)
    if len(text) > _LENGTH:
        text = f"{text[: _LENGTH // 2]} ... {text[-_LENGTH // 2 :]}"
    texts[text] = None
    return content_id(text)
