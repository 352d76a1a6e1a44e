"""Prices of models: a table that a file may override."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from schemas.base import in_words
from schemas.errors import SettingsError

Dollars = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]

MILLION = 1_000_000
# A model's version, as in gpt-4.1-mini-2025-04-14: every version has the model's price.
_VERSION = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@checked(frozen=True, kw_only=True, config={"extra": "forbid"})
class Price:
    """What a model costs, in US dollars for a million tokens."""

    input: Dollars
    output: Dollars = 0.0


_table = TypeAdapter(dict[str, Price])


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices by model."""

    by_model: Mapping[str, Price]

    def knows(self, model: str) -> bool:
        """Tell whether the price of a model is known."""
        return self._price(model) is not None

    def cost(self, model: str, input_tokens: float, output_tokens: float) -> float | None:
        """Return a call's cost in US dollars; None: the model's price is not known."""
        price = self._price(model)
        if price is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / MILLION

    def _price(self, model: str) -> Price | None:
        return self.by_model.get(model) or self.by_model.get(_VERSION.sub("", model))


def load_prices(path: Path | None = None) -> Prices:
    """Read the table, and the file that overrides it. Raises `SettingsError`, which names what is wrong in it."""
    built_in = _table.validate_python(tomllib.loads((files(__package__) / "prices.toml").read_text()))
    return Prices(by_model=built_in | (_read(path) if path is not None else {}))


def _read(path: Path) -> dict[str, Price]:
    named = f"BACKSCROLL_LLM_PRICES={path}"
    try:
        return _table.validate_python(tomllib.loads(path.read_text()))
    except ValidationError as error:
        raise SettingsError(f"{named}: {in_words(error.errors(), None)[0]}") from None
    except ValueError as error:
        raise SettingsError(f"{named} is no TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{named} cannot be read: {error.strerror}") from None
