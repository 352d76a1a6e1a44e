"""What can be configured: `BACKSCROLL_…` in the environment, in `.env`, or in the file of `BACKSCROLL_CONFIG`.

Built only at the edges (command line, workers, door) and passed in.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.errors import SettingsError
from schemas.problems import did_you_mean

PREFIX = "BACKSCROLL_"

OTHERS = (
    *("CONFIG", "SUPERUSER_URL", "VENV", "EXTRAS"),
    *("OWNER_PASSWORD", "APP_PASSWORD", "MAINTENANCE_PASSWORD", "BACKUP_PASSWORD"),
)
"""Names with our prefix that are read by `db roles`, the scripts and compose."""


def _named(name: str, *others: str) -> AliasChoices:
    """The names a setting is read from: ours, then those of the tools that people come from."""
    return AliasChoices(PREFIX + name, *others)


def _default_data_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/backscroll")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "backscroll"


class Settings(BaseSettings):
    """All settings, checked, with their defaults."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file_encoding="utf-8",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
    )

    # Postgres as the role that sees one tenant at a time; none: the embedded one
    database_url: SecretStr | None = None
    # Postgres as the role that claims work over all tenants
    maintenance_database_url: SecretStr | None = None
    # Postgres as the role that owns the tables: migrations and index builds alone
    owner_database_url: SecretStr | None = None
    # Postgres as the role that reads all tenants, past row-level security: `backscroll backup` alone
    backup_database_url: SecretStr | None = None
    # the broker; none: the embedded one
    redis_url: SecretStr | None = None
    # where the embedded Postgres and Redis, logs and the generated API key lie
    data_dir: Path = Field(default_factory=_default_data_dir)

    # the HTTP API of a running Backscroll, which answers the questions of the command line; none: the embedded one's
    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+(/\S*)?$")] | None = None

    # whose data this is when nothing else says so
    tenant: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")] = "default"
    # what a caller of the door must send as `Authorization: Bearer …`
    api_key: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8420
    # processes of the door, each with a model of its own; none: two, where there are as many cores
    web_processes: Annotated[int, Field(ge=1, le=16)] | None = None
    flower_port: Annotated[int, Field(ge=0, le=65535)] = 8421
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    session_memory_enabled: bool = Field(
        True, validation_alias=_named("SESSION_MEMORY_ENABLED", "CONTEXT_SESSION_MEMORY_ENABLED")
    )
    session_gap_minutes: Annotated[float, Field(gt=0, le=10080)] = Field(
        30, validation_alias=_named("SESSION_GAP_MINUTES", "CONTEXT_SESSION_GAP_MINUTES")
    )
    session_min_messages: Annotated[int, Field(ge=1, le=1000)] = Field(
        4, validation_alias=_named("SESSION_MIN_MESSAGES", "CONTEXT_SESSION_MIN_MESSAGES")
    )
    session_max_retrieved: Annotated[int, Field(ge=0, le=100)] = Field(
        3, validation_alias=_named("SESSION_MAX_RETRIEVED", "CONTEXT_SESSION_MAX_RETRIEVED")
    )
    session_summarization_enabled: bool = Field(
        True,
        validation_alias=_named("SESSION_SUMMARIZATION_ENABLED", "CONTEXT_SESSION_SUMMARIZATION_ENABLED"),
    )
    session_summary_model: str = Field(
        "extractive-v1",
        validation_alias=_named("SESSION_SUMMARY_MODEL", "CONTEXT_SESSION_SUMMARY_MODEL"),
    )
    session_summary_version: Annotated[int, Field(ge=1)] = Field(
        1, validation_alias=_named("SESSION_SUMMARY_VERSION", "CONTEXT_SESSION_SUMMARY_VERSION")
    )
    session_rolling_messages: Annotated[int, Field(ge=4, le=10000)] = 60
    session_rolling_tokens: Annotated[int, Field(ge=200, le=1_000_000)] = 6000

    # none: the local model when it is installed, else `deterministic`
    embedding_provider: Literal["deterministic", "sentence-transformers", "ollama", "openai"] | None = Field(
        None, validation_alias=_named("EMBEDDING_PROVIDER", "VECTOR_EMBEDDING_PROVIDER")
    )
    # none: the provider's own default, all-MiniLM-L6-v2 or deterministic-hash-v1
    embedding_model: str | None = Field(
        None, validation_alias=_named("EMBEDDING_MODEL", "VECTOR_EMBEDDING_MODEL")
    )
    embedding_max_chars: Annotated[int, Field(ge=100, le=100_000)] = 4000
    embedding_batch_size: Annotated[int, Field(ge=1, le=1000)] = 32
    # a cross-encoder that reads the best candidates once more; none: off
    reranker_model: str | None = None

    # a named session without messages for so long is closed
    memory_session_ttl_minutes: Annotated[float, Field(gt=0, le=525_600)] = 60
    memory_session_max: Annotated[int, Field(ge=1, le=100_000)] = 100
    memory_user_max: Annotated[int, Field(ge=1, le=100_000)] = 200
    memory_min_importance: Annotated[float, Field(ge=0, le=10)] = 0.5

    context_budget_tokens: Annotated[int, Field(ge=50, le=1_000_000)] = 2000
    context_history_tokens: Annotated[int, Field(ge=0, le=100_000)] = 800

    # off: what was asked, shown and answered is not recorded
    query_log_enabled: bool = True
    # whether a reported answer becomes, with its question, a memory of whoever asked
    remember_answers: bool = False

    # raw messages older than so many days are pruned; none: they are kept
    retention_days: Annotated[int, Field(ge=1)] | None = None
    # messages beyond so many in one chat are pruned, the oldest first; none: they are kept
    retention_messages_per_chat: Annotated[int, Field(ge=1)] | None = None
    # rows of the query log, with the answers in them, older than so many days are pruned
    query_log_days: Annotated[int, Field(ge=1)] = 90
    # edits whose message has not come for so many days are pruned
    pending_edit_days: Annotated[int, Field(ge=1)] = 30

    sweep_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 5
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 120
    job_max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    # how long after its last change a closed session is summarized
    summarize_debounce_seconds: Annotated[float, Field(ge=0, le=86_400)] = 5
    # how long after the last imported message a chat's sessions are summarized
    settle_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10
    # what a worker's main process touches every two seconds, for health checks; none: nothing
    worker_heartbeat_file: Path | None = None
    # above so many messages that wait for their place the door answers 503
    backlog_max_messages: Annotated[int, Field(ge=1)] = 200_000


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process.

    Raises `SettingsError` that names each wrong variable, its value and what is allowed, and each variable with our
    prefix that is no setting.
    """
    config = os.environ.get(PREFIX + "CONFIG")
    if config and not Path(config).is_file():
        raise SettingsError(f"{PREFIX}CONFIG names {config}, which is not a file")
    files = (".env", config) if config else (".env",)
    _refuse_unknown({"the environment": os.environ} | {file: dotenv_values(file) for file in files})
    try:
        return Settings(_env_file=files, **overrides)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(e) for e in error.errors())) from None


def _refuse_unknown(given: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `SettingsError` for what has our prefix and is read by nobody; `given` are names by where they stand."""
    known = [*(name.upper() for name in Settings.model_fields), *OTHERS]
    told = []
    for place, names in given.items():
        for name in sorted(names):
            bare = name.upper().removeprefix(PREFIX)
            if name.upper().startswith(PREFIX) and bare not in known:
                hint = did_you_mean(bare, known, prefix=PREFIX) or "remove it"
                told.append(f"{name} in {place} is no setting; {hint}")
    if told:
        raise SettingsError("\n".join(told))


def _explain(error: Any) -> str:
    name = str(error["loc"][0]) if error["loc"] else "settings"
    if not name.startswith(PREFIX) and name.islower():
        name = PREFIX + name.upper()
    secret = any(word in name for word in ("URL", "KEY"))
    value = "" if secret else f"={error['input']!r}"
    return f"{name}{value}: {error['msg']}"
