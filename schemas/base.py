"""Base models, limits checked before the content is parsed, and readable validation errors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator

from schemas.signs import MAX_SIGN_CHARS, border

MAX_NAMED = 5
"""Problems of one payload that are named; further ones are only counted."""
MIN_SIMILARITY = 0.6
"""The ratio of `difflib` from which a name is suggested."""
_ELSEWHERE = {"learned_in": "chat_id", "content": "text", "query": "question"}
"""Fields by what other routes, or other products, call the same."""
MAX_UNKNOWN = 20
"""Unknown fields of one object that are named; further ones are only counted."""
FROM_PLATFORM = {"from": "platform"}
"""Pydantic's context for what nobody can correct and send again, such as an export: what is too long is cut."""


def at_most(items: int) -> BeforeValidator:
    """Refuse a longer list with one error, whatever it contains; `Field(max_length=…)` beside it is for the schema."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) > items:
            raise ValueError(f"has {len(value)} items; at most {items} are taken")
        return value

    return BeforeValidator(check)


def at_most_bytes(size: int, remedy: str = "") -> AfterValidator:
    """Refuse a text that is longer in UTF-8; `FROM_PLATFORM` passes, and is cut when it is stored."""

    def check(value: str, info: ValidationInfo) -> str:
        if (length := len(value.encode())) > size and info.context is not FROM_PLATFORM:
            raise ValueError(f"is {length} bytes long; at most {size} are taken{remedy}")
        return value

    return AfterValidator(check)


def up_to(chars: int) -> BeforeValidator:
    """Cut a longer name that is `FROM_PLATFORM`; `Field(max_length=…)` beside it refuses any other."""

    def cut(name: Any, info: ValidationInfo) -> Any:
        return cut_name(name, chars) if info.context is FROM_PLATFORM and isinstance(name, str) else name

    return BeforeValidator(cut)


def cut_name(name: str, chars: int) -> str:
    """Cut a name or a title, with an ellipsis in the place of what is missing."""
    return name if len(name) <= chars else f"{name[: border(name, chars - 1)]}…"


def is_cut(name: str | None, chars: int) -> bool:
    """Tell whether a name or a title was cut to so many characters."""
    return name is not None and name.endswith("…") and chars - MAX_SIGN_CHARS < len(name) <= chars


def depending_on(
    field: str, *, needed: Mapping[str, Sequence[str]], refused: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return for a schema which fields each value of one needs and refuses; null counts as left out."""
    rules = []
    for value in {**needed, **refused}:
        names = [*needed.get(value, ())]
        properties: dict[str, Any] = {name: {"not": {"type": "null"}} for name in names}
        properties |= {name: {"type": "null"} for name in refused.get(value, ())}
        then = {"properties": properties, "required": names}
        rules.append({"if": {"properties": {field: {"const": value}}}, "then": then})
    return {"allOf": rules}


class Frozen(BaseModel):
    """A model that does not change; the docstrings of its fields are their descriptions in `/docs`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Closed(Frozen):
    """A model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, value: Any) -> Any:
        if isinstance(value, dict) and (unknown := len(value) - len(cls.model_fields)) > MAX_UNKNOWN:
            raise ValueError(f"has {unknown} fields or more that are not known")
        return value


def in_words(errors: Sequence[Any], model: type[BaseModel] | None) -> tuple[str, str]:
    """Turn pydantic's errors into `(message, first wrong field)`. Of many errors, unknown fields come first."""
    problems = list(errors)
    if len(problems) > MAX_NAMED:
        problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    named = [_sentence(problem, fields_at(model, problem["loc"][:-1])) for problem in problems[:MAX_NAMED]]
    more = f" (and {len(problems) - MAX_NAMED} more)" if len(problems) > MAX_NAMED else ""
    return "; ".join(named) + more, _name(problems[0])


def fields_at(model: type[BaseModel] | None, place: Sequence[str | int]) -> Collection[str]:
    """Return the field names of the object at a place inside a payload of this model."""
    for part in place:
        if model is not None and isinstance(part, str):
            field = model.model_fields.get(part)
            model = next(_models(field.annotation), None) if field else None
    return model.model_fields if model else ()


def did_you_mean(
    unknown: str,
    known: Collection[str],
    *,
    titles: Mapping[str, str] | None = None,
    prefix: str = "",
    most: int = 1,
) -> str:
    """Suggest known names, by id or title, that are similar to an unknown one; empty if none is.

    >>> did_you_mean("contant", ["content", "sent_at"])
    'did you mean content?'
    >>> did_you_mean("telegram:100420", ["telegram:-100420"], titles={"telegram:-100420": "Harbour House"})
    'did you mean telegram:-100420 (Harbour House)?'
    """
    titles = titles or {}
    wanted = unknown.casefold()

    def similarity(name: str) -> float:
        # without the platform's prefix, too
        forms = [name, name.partition(":")[2], titles.get(name, ""), _ELSEWHERE.get(name, "")]
        return max(SequenceMatcher(None, wanted, form.casefold()).ratio() for form in forms if form)

    ranked = sorted(((similarity(name), name) for name in known if name), reverse=True)
    similar = [name for score, name in ranked[:most] if score >= MIN_SIMILARITY]
    named = [prefix + name + (f" ({titles[name]})" if titles.get(name) else "") for name in similar]
    return f"did you mean {' or '.join(named)}?" if named else ""


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
            hint = did_you_mean(str(problem["loc"][-1]), known)
            return f"{_name(problem)} is not known" + (f", {hint}" if hint else "")
        case _:
            return f"{_name(problem)}: {_what(problem)}"


def _what(problem: Any) -> str:
    """Say what is wrong and what is allowed; pydantic itself counts "items" of a text that was cleaned first."""
    limits = problem.get("ctx", {})
    if problem["type"] in {"too_short", "too_long"}:
        least = problem["type"] == "too_short"
        bound, number = ("at least", limits["min_length"]) if least else ("at most", limits["max_length"])
        unit = "item" if isinstance(problem["input"], list | tuple | dict) else "character"
        return f"must have {bound} {number} {unit}{'' if number == 1 else 's'}, not {limits['actual_length']}"
    return str(problem["msg"]).removeprefix("Value error, ")
