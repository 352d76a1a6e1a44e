"""Write a message's tool calls as text, as most such messages have no other text."""

import json
from collections.abc import Mapping
from typing import Any


def written(metadata: Mapping[str, Any]) -> str:
    """Return the calls of `tool_calls`, as chat models answer with them, a line each; empty if there are none.

    >>> written({"tool_calls": [{"function": {"name": "find_trains", "arguments": '{"to": "京都", "seats": 2}'}}]})
    '[find_trains(to=京都, seats=2)]'
    >>> written({"tool_calls": [{"name": "now", "args": {}}]}), written({"tool_calls": "none"})
    ('[now()]', '')
    """
    calls = metadata.get("tool_calls")
    lines = (_line(call) for call in calls if isinstance(call, dict)) if isinstance(calls, list) else ()
    return "\n".join(filter(None, lines))


def _line(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    call = function if isinstance(function, dict) else call
    name = call.get("name")
    arguments = next((call[key] for key in ("arguments", "args", "input") if key in call), None)
    return f"[{name}({_arguments(arguments)})]" if isinstance(name, str) and name else ""


def _arguments(arguments: Any) -> str:
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
        if isinstance(parsed, dict):
            return ", ".join(f"{name}={_value(value)}" for name, value in parsed.items())
    except (ValueError, RecursionError):
        # a model may write anything in place of JSON
        pass
    return "" if arguments is None else _value(arguments)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
