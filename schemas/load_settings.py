"""Load the settings of a process from the environment and files, only at the edges: command line, workers, HTTP API."""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from schemas import masking
from schemas.base import did_you_mean
from schemas.errors import SettingsError
from schemas.settings import PREFIX, Settings

OTHERS = (
    *("CONFIG", "SUPERUSER_URL", "VENV", "EXTRAS"),
    *("OWNER_PASSWORD", "APP_PASSWORD", "MAINTENANCE_PASSWORD", "BACKUP_PASSWORD"),
)
"""Names with our prefix that are read by `db roles`, the scripts and compose."""


def load_settings(**overrides: Any) -> Settings:
    """Load the settings of this process.

    What it is given is masked from now on as they say. Raises `SettingsError` that names each wrong variable, its value
    and what is allowed, and each variable with our prefix that is no setting.
    """
    config = os.environ.get(PREFIX + "CONFIG")
    if config and not Path(config).is_file():
        raise SettingsError(f"{PREFIX}CONFIG names {config}, which is not a file")
    files = (".env", config) if config else (".env",)
    try:
        read = {file: dotenv_values(file) for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{' or '.join(files)} cannot be read as UTF-8 text: {error}") from None
    _refuse_unknown({"the environment": os.environ, **read})
    overrides = _prefixed_values(read.values()) | overrides
    try:
        settings = Settings(_env_file=files, **overrides)
    except ValidationError as error:
        given = {*os.environ, *(name for names in read.values() for name in names)}
        raise SettingsError("\n".join(_explain(e, given) for e in error.errors())) from None
    masking.use(settings.secrets)
    return settings


def _prefixed_values(files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what files set under our prefix where the environment sets it only under another tool's name.

    A key that is there for another tool must not override ours.
    """
    values = {name: value for file in files for name, value in file.items()}
    ours = {field: PREFIX + field.upper() for field, f in Settings.model_fields.items() if f.validation_alias}
    return {field: values[name] for field, name in ours.items() if name in values and name not in os.environ}


def _refuse_unknown(places: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `SettingsError` for names with our prefix that nobody reads, by their source."""
    known = [*(name.upper() for name in Settings.model_fields), *OTHERS]
    problems = []
    for place, names in places.items():
        for name in sorted(names):
            bare = name.upper().removeprefix(PREFIX)
            if name.upper().startswith(PREFIX) and bare not in known:
                hint = did_you_mean(bare, known, prefix=PREFIX) or "remove it"
                problems.append(f"{name} in {place} is no setting; {hint}")
    if problems:
        raise SettingsError("\n".join(problems))


def _explain(error: Any, given: Collection[str]) -> str:
    """Name the wrong setting by the variable that sets it, which may be another tool's, and say what is wrong."""
    name = str(error["loc"][0]) if error["loc"] else "settings"
    field = name.lower().removeprefix(PREFIX.lower())
    if field in Settings.model_fields:
        alias = Settings.model_fields[field].validation_alias
        names = [PREFIX + field.upper(), *map(str, getattr(alias, "choices", ()))]
        name = next((each for each in names if each in given), names[0])
    secret = any(word in name for word in ("URL", "KEY"))
    value = "" if secret else f"={error['input']!r}"
    return f"{name}{value}: {error['msg'].removeprefix('Value error, ')}"
