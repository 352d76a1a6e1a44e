"""Refuse what is too large before it is looked into: of every wrong item and every unknown field an error is made."""

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

MAX_UNKNOWN = 20
"""Unknown fields of one object that are named each; of more the number is told."""


def at_most(items: int) -> BeforeValidator:
    """Refuse a longer list by one error, whatever is in it; `Field(max_length=…)` beside it tells the schema."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) > items:
            raise ValueError(f"has {len(value)} items; at most {items} are taken")
        return value

    return BeforeValidator(check)


class Closed(BaseModel):
    """A model that takes no field that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, value: Any) -> Any:
        if isinstance(value, dict) and (unknown := len(value) - len(cls.model_fields)) > MAX_UNKNOWN:
            raise ValueError(f"has {unknown} fields or more that are not known")
        return value
