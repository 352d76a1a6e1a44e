"""Base models, and limits that are checked before what is inside: each wrong item or field would make an error."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

MAX_UNKNOWN = 20
"""Unknown fields of one object that are named each; of more only the number is given."""


def at_most(items: int) -> BeforeValidator:
    """Refuse a longer list with one error, whatever it holds; `Field(max_length=…)` beside it is for the schema."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) > items:
            raise ValueError(f"has {len(value)} items; at most {items} are taken")
        return value

    return BeforeValidator(check)


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
