"""Say in words what pydantic found wrong, with the names that the sender knows."""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

TOLD = 5
"""Problems of one payload that are told each; of more the number is told."""


def in_words(error: ValidationError, model: type[BaseModel]) -> tuple[str, str]:
    """`(what is wrong, the first wrong field)`. A field that is not known is named whatever else is wrong."""
    problems = error.errors(include_url=False)
    if len(problems) > TOLD:
        problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    told = [_sentence(problem, fields_at(model, problem["loc"][:-1])) for problem in problems[:TOLD]]
    more = f" (and {len(problems) - TOLD} more)" if len(problems) > TOLD else ""
    return "; ".join(told) + more, _name(problems[0])


def fields_at(model: type[BaseModel] | None, place: Sequence[str | int]) -> Collection[str]:
    """The fields of the object at a place inside a payload of this model."""
    for part in place:
        if model is not None and isinstance(part, str):
            field = model.model_fields.get(part)
            model = next(_models(field.annotation), None) if field else None
    return model.model_fields if model else ()


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not known: the nearest that is, if any is near.

    >>> did_you_mean("contant", ["content", "sent_at"])
    ', did you mean content?'
    """
    near = get_close_matches(name, known, n=1)
    return f", did you mean {near[0]}?" if near else ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _name(problem: Any) -> str:
    return ".".join(str(part) for part in problem["loc"]) or "body"


def _sentence(problem: Any, known: Collection[str]) -> str:
    match problem["type"]:
        case "missing":
            return f"{_name(problem)} is missing"
        case "extra_forbidden":
            return f"{_name(problem)} is not known{did_you_mean(str(problem['loc'][-1]), known)}"
        case _:
            return f"{_name(problem)}: {_what(problem)}"


def _what(problem: Any) -> str:
    """What is wrong and what is allowed. Pydantic counts the "items" of a text that was cleaned first."""
    limits = problem.get("ctx", {})
    if problem["type"] in {"too_short", "too_long"}:
        least = problem["type"] == "too_short"
        bound, number = ("at least", limits["min_length"]) if least else ("at most", limits["max_length"])
        unit = "item" if isinstance(problem["input"], list | tuple | dict) else "character"
        return f"must have {bound} {number} {unit}{'' if number == 1 else 's'}, not {limits['actual_length']}"
    return str(problem["msg"]).removeprefix("Value error, ")
