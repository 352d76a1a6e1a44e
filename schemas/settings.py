"""What can be configured: `BACKSCROLL_…` in the environment, in `.env`, or in the file of `BACKSCROLL_CONFIG`.

The docstrings are what `ops/guide/configuration.md` says: `backscroll dev docs` writes it.
"""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.facts import RULES
from schemas.server_urls import postgres_parameters, redis_url
from schemas.sessions import EXTRACTIVE

PREFIX = "BACKSCROLL_"
MAX_BUDGET_TOKENS = 200_000
MAX_HISTORY_TOKENS = 100_000
_HEADER_VALUE = re.compile("[!-~]*")


def _also(prefix: str, name: str, default: Any) -> Any:
    """Return the default of a setting that is also read with the prefix of the tools that people come from."""
    return Field(default, validation_alias=AliasChoices(PREFIX + name, prefix + name))


HttpUrl = Annotated[str, Field(pattern=r"^https?://[^/\s]+(/\S*)?$")]


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
        use_attribute_docstrings=True,
    )

    database_url: SecretStr | None = None
    """Postgres, as the role that sees one tenant at a time. Unset: the embedded Postgres."""
    maintenance_database_url: SecretStr | None = None
    """The same Postgres, as the role that claims jobs over all tenants. Unset: the embedded Postgres."""
    owner_database_url: SecretStr | None = None
    """The same Postgres, as the owner of the tables: for migrations and index builds only."""
    backup_database_url: SecretStr | None = None
    """The same Postgres, as the role that reads all tenants: for `backscroll backup` only."""
    redis_url: SecretStr | None = None
    """Redis, which Celery uses as its broker. Unset: the embedded Redis. With `rediss://` its certificate is verified;
    `?ssl_ca_certs=/path/ca.pem` names a CA of your own, `ssl_cert_reqs=none` verifies nothing."""
    data_dir: Path = Field(default_factory=_default_data_dir)
    """Folder of the embedded Postgres and Redis, logs, passwords and the generated API key. Default:
    `/var/lib/backscroll` as root, else `~/.local/share/backscroll`."""
    url: HttpUrl | None = None
    """HTTP API that `context`, `search` and `documents add` on the command line ask, with `BACKSCROLL_API_KEY`.
    Unset: that of the running `backscroll up`."""

    tenant: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")] = "default"
    """Tenant that the HTTP API serves, and that commands use without `--tenant`."""
    api_key: SecretStr | None = None
    """API key that callers send as `Authorization: Bearer …`. `backscroll up` generates one."""
    host: str = "127.0.0.1"
    """Address that the HTTP API listens on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8420
    """Port of the HTTP API; 0 picks a free one."""
    api_processes: Annotated[int, Field(ge=1, le=16)] | None = None
    """Processes of the HTTP API, each with an embedding model of its own (some 80 MB) and up to 25 connections to
    Postgres. Unset: 2, on one core 1."""
    flower_port: Annotated[int, Field(ge=0, le=65535)] = 8421
    """Port of the Flower that `backscroll up` starts; 0 picks a free one."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Log level of workers and the HTTP API."""

    session_memory_enabled: bool = _also("CONTEXT_", "SESSION_MEMORY_ENABLED", True)
    """Whether sessions are remembered: summarized, learned from and shown by their summaries, and memories written and
    searched. Off: contexts show recent messages, messages that fit the question, and documents (none with
    `top_k_documents` 0)."""
    session_gap_minutes: Annotated[float, Field(gt=0, le=10080)] = _also(
        "CONTEXT_", "SESSION_GAP_MINUTES", 30
    )
    """Longest pause within a session; a longer one starts the next session."""
    session_min_messages: Annotated[int, Field(ge=1, le=1000)] = _also("CONTEXT_", "SESSION_MIN_MESSAGES", 4)
    """Fewest messages that a session must have to be summarized."""
    session_max_retrieved: Annotated[int, Field(ge=0, le=100)] = _also("CONTEXT_", "SESSION_MAX_RETRIEVED", 3)
    """`sessions` of the profiles `balanced` and `group`: how many of the best sessions say what they were about, where
    a language model has summarized them."""
    session_summarization_enabled: bool = _also("CONTEXT_", "SESSION_SUMMARIZATION_ENABLED", True)
    """Whether sessions are summarized. Off: they are cut and searched only."""
    session_summary_model: Annotated[str, Field(min_length=1, max_length=200)] = _also(
        "CONTEXT_", "SESSION_SUMMARY_MODEL", EXTRACTIVE
    )
    """What summarizes sessions: `extractive-v1` on this machine, or a language model of `BACKSCROLL_OPENAI_BASE_URL`,
    which is sent the transcripts; `gpt-4.1-mini` is one to begin with."""
    session_summary_timeout_seconds: Annotated[float, Field(ge=1, le=3600)] = 60
    """How long a language model may take for one answer, in all; must be less than `BACKSCROLL_LEASE_SECONDS`."""
    session_summary_context_tokens: Annotated[int, Field(ge=4000, le=2_000_000)] = 16_000
    """Tokens that the language model reads at once, its answer included (for Ollama: `num_ctx`). A longer session is
    summarized in parts."""
    session_summary_every: Annotated[int, Field(ge=1, le=1000)] = 1
    """In quiet chats, those with fewer than seven sessions in a week, the language model summarizes only every session
    of this number; the others are extracted."""
    session_summary_canaries: str | None = None
    """Chats, separated by commas, whose sessions alone the language model summarizes. Unset: all chats."""
    session_summary_version: Annotated[int, Field(ge=1)] = _also("CONTEXT_", "SESSION_SUMMARY_VERSION", 1)
    """Version of the summaries. Raise it to have a backfill summarize sessions again."""
    rollups_enabled: bool = False
    """Whether a language model that summarizes sessions also summarizes each past week of a chat, from their summaries,
    for questions that name a time ("last week", "in October"). With `extractive-v1` no week is summarized."""
    session_rolling_messages: Annotated[int, Field(ge=4, le=10000)] = 60
    """An open session is summarized after this many new messages …"""
    session_rolling_tokens: Annotated[int, Field(ge=200, le=1_000_000)] = 6000
    """… or after this many new tokens, whichever comes first."""

    llm_answer_tokens: Annotated[int, Field(ge=100, le=200_000)] = 900
    """Tokens of a language model's answer, a summary or facts. One that is cut off is asked for again with twice as
    many, or with four times as many where thoughts took them all: give a model that reasons more. At most a quarter of
    `BACKSCROLL_SESSION_SUMMARY_CONTEXT_TOKENS`."""
    llm_daily_budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars that language models may cost a tenant a day (UTC), by the prices that are known. Unset: any."""
    llm_daily_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that a tenant's prompts to language models and their answers may have a day (UTC). Unset: any."""
    llm_budget_spent: Literal["wait", "extract"] = "wait"
    """What becomes of a session when the budget is spent: `wait` for the next day, or `extract` its summary without a
    model."""
    llm_prices: Path | None = None
    """TOML file of prices that adds to those that are built in and takes precedence, with `["model"]`, `input = 0.4`
    and `output = 1.6` in US dollars for a million tokens. Unset: only the built-in ones."""
    llm_calls_days: Annotated[int, Field(ge=1)] = 90
    """Days after which the records of calls to language models are pruned."""
    llm_max_concurrent: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Calls to one provider of language models at once, by all workers together; a worker makes up to 16."""
    llm_requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Calls to one provider of language models a minute, by all workers together. Unset: any number."""
    llm_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Tokens of calls to one provider of language models a minute, by all workers together. Unset: any number."""

    embedding_provider: (
        Literal["deterministic", "onnx", "sentence-transformers", "ollama", "openai"] | None
    ) = _also("VECTOR_", "EMBEDDING_PROVIDER", None)
    """What embeds: a model in this process (`onnx`, or `sentence-transformers` with torch), a server (`ollama`, or
    `openai` for any that speaks its protocol), or words hashed without a model (`deterministic`). Unset: `onnx` if it
    is installed, else `deterministic`."""
    embedding_model: str | None = _also("VECTOR_", "EMBEDDING_MODEL", None)
    """Model of that provider, with which a new database begins; `backscroll spaces` changes it later. For `onnx` a
    folder that `backscroll model export` has made, for `sentence-transformers` a name on the Hugging Face hub or a
    folder. Unset: `multilingual-e5-small` (`onnx`; `all-MiniLM-L6-v2` where it is not installed), `all-MiniLM-L6-v2`
    (`sentence-transformers`), `nomic-embed-text` (`ollama`), `text-embedding-3-small` (`openai`) or
    `deterministic-hash-v1`."""
    embedding_max_chars: Annotated[int, Field(ge=100, le=100_000)] = 16_000
    """Characters of a text that are embedded; the rest of a longer text is not. What is longer than the model reads is
    cut into at most 32 chunks with a vector each, and is found by the best of them."""
    embedding_batch_size: Annotated[int, Field(ge=1, le=1000)] = 32
    """Texts that the model embeds at once, at most: `onnx` embeds fewer when they are long. Also of one request to a
    server."""
    embedding_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = _also(
        "VECTOR_", "EMBEDDING_TIMEOUT_SECONDS", 12
    )
    """How long one request to an embedding server may take in all. A question waits 3 s at most, and is then answered
    by keywords."""
    embedding_query_prefix: Annotated[str, Field(max_length=1000)] | None = None
    """Put before a question when it is embedded. Unset: what the model's card asks for, where it is known."""
    embedding_document_prefix: Annotated[str, Field(max_length=1000)] | None = None
    """Put before any other text when it is embedded. Unset: as for questions."""
    embedding_pooling: Literal["mean", "cls", "max", "lasttoken"] | None = None
    """How a model of `sentence-transformers` makes one vector of its tokens' vectors; servers pool by themselves.
    Unset: as the model's own files say."""
    embedding_dimensions: Annotated[int, Field(ge=2, le=16_000)] | None = None
    """Dimensions of the vectors, for models that can make shorter ones (`openai`, `ollama`), and for `deterministic`.
    Above 4000 no index can be built. Unset: the model's own."""
    ollama_url: HttpUrl = "http://127.0.0.1:11434"
    """Ollama server of the provider `ollama`."""
    openai_base_url: HttpUrl | None = _also("", "OPENAI_BASE_URL", None)
    """Server that speaks OpenAI's protocol, such as `http://127.0.0.1:8000/v1`. Nothing is sent there until a setting
    names a model or the embedding provider `openai`. Unset: OpenAI's own, `https://api.openai.com/v1`."""
    openai_api_key: SecretStr | None = _also("", "OPENAI_API_KEY", None)
    """API key for that server, if it needs one. A key alone sends nothing anywhere."""
    reranker_model: str | None = None
    """Cross-encoder, by its name on the Hugging Face hub or its folder, that scores the 20 best messages of a context
    again (extra `sentence-transformers`). If it fails it is skipped, and `degraded` says so. Unset: none."""
    hyde_model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Language model that makes up an answer to search with, for requests with `hyde` whose question finds little. It
    is sent the question, nothing else. Unset: none is asked."""

    memory_learning_enabled: bool = True
    """Whether facts are learned from sessions."""
    memory_model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What learns facts: `rules-v1` on this machine, which keeps only what people ask a bot to keep, or a language
    model of `BACKSCROLL_OPENAI_BASE_URL`, which is sent the transcripts. Unset: the language model that summarizes
    sessions, or without one `rules-v1`."""
    memory_facts_per_session: Annotated[int, Field(ge=1, le=20)] = 3
    """Facts learned from one session, the most important ones."""
    memory_session_ttl_minutes: Annotated[float, Field(gt=0, le=525_600)] = 60
    """A session with a `session_key` is closed after this long without messages. A session's memory that has no expiry
    of its own expires this long after it was last written or shown."""
    memory_session_max: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Memories kept of one session; more are pruned."""
    memory_summary_turns: Annotated[int, Field(ge=2, le=5000)] = 6
    """An open session with a `session_key` is summarized after this many new turns of two messages each (or earlier,
    see `BACKSCROLL_SESSION_ROLLING_MESSAGES`); the summary is a memory of the session, too."""
    memory_user_max: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Memories kept of one user, documents aside; the least useful beyond it are pruned: what is history first, then by
    importance, how long it was not shown and how often it was, what was written by hand last."""
    memory_history_days: Annotated[int, Field(ge=1)] = 400
    """Days for which memories that were superseded or retracted are kept as history."""
    memory_answers_days: Annotated[int, Field(ge=1)] = 90
    """Days after which a remembered answer that was not shown meanwhile is pruned."""
    memory_min_importance: Annotated[float, Field(ge=0, le=10)] = 0.5
    """`min_importance` of the profiles `balanced` and `group`: less important user memories are left out."""

    context_budget_tokens: Annotated[int, Field(ge=50, le=MAX_BUDGET_TOKENS)] = 2000
    """Tokens of a context whose request has no `budget_tokens`."""
    context_history_tokens: Annotated[int, Field(ge=0, le=MAX_HISTORY_TOKENS)] = 800
    """`history_tokens` of the profiles `balanced` and `group`: tokens of recent messages."""
    query_log_enabled: bool = True
    """Whether questions, what was shown for them and their answers are recorded."""
    remember_answers: bool = False
    """Whether a reported answer and its question become a memory of the user who asked."""

    retention_days: Annotated[int, Field(ge=1)] | None = None
    """Messages older than this are pruned. Unset: all are kept."""
    retention_messages_per_chat: Annotated[int, Field(ge=1)] | None = None
    """Messages kept of one chat; the oldest beyond it are pruned. Unset: all are kept."""
    query_log_days: Annotated[int, Field(ge=1)] = 90
    """Days after which recorded questions and answers are pruned."""
    pending_edit_days: Annotated[int, Field(ge=1)] = 30
    """Days that an edit waits for a message that has not come yet, and that a payload which could not be accepted is
    kept. Deletions wait for ever."""

    sweep_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 5
    """How often idle sessions are closed and lost wake-ups are sent again (`up --demo` without this setting: every
    second)."""
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 120
    """How long a worker may take for a claimed job before another worker may claim it."""
    job_max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Attempts after which a failing job becomes a dead letter."""
    summarize_debounce_seconds: Annotated[float, Field(ge=0, le=86_400)] = 5
    """How long a closed session waits for late messages before it is summarized."""
    settle_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10
    """How long a chat's sessions wait after its last imported message before they are summarized."""
    worker_heartbeat_file: Path | None = None
    """File that a worker's main process touches every two seconds, for health checks. Unset: none."""
    backlog_max_messages: Annotated[int, Field(ge=1)] = 200_000
    """Accepted messages that may wait to be placed (those of given-up chats aside); above this the HTTP API answers
    503."""

    def learning_model(self) -> str:
        """Return the name of what learns facts."""
        if self.memory_model is not None:
            return self.memory_model
        return RULES if self.session_summary_model == EXTRACTIVE else self.session_summary_model

    def rolls_up(self) -> bool:
        """Tell whether weeks are summarized."""
        by_model = self.session_summary_model != EXTRACTIVE
        return self.session_memory_enabled and self.rollups_enabled and by_model

    def summary_canaries(self) -> frozenset[str]:
        """Return the chats that alone a language model summarizes; none: all."""
        return frozenset(filter(None, map(str.strip, (self.session_summary_canaries or "").split(","))))

    def named_rolling_messages(self) -> int:
        """Return after how many new messages an open session that an agent named is summarized."""
        return min(self.session_rolling_messages, 2 * self.memory_summary_turns)

    def session_lifetime(self) -> timedelta:
        """Return how long a session's memories live after they were last written or shown."""
        return timedelta(minutes=self.memory_session_ttl_minutes)

    @field_validator("redis_url")
    @classmethod
    def _verifies_certificates(cls, given: SecretStr | None) -> SecretStr | None:
        return given and SecretStr(redis_url(given.get_secret_value()))

    @field_validator("database_url", "maintenance_database_url", "owner_database_url", "backup_database_url")
    @classmethod
    def _is_postgres(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None:
            postgres_parameters(given.get_secret_value())
        return given

    @field_validator("api_key", "openai_api_key")
    @classmethod
    def _fits_a_header(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and not _HEADER_VALUE.fullmatch(given.get_secret_value()):
            raise ValueError("must be printable ASCII characters without spaces and line ends")
        return given

    @field_validator("openai_base_url", "openai_api_key", mode="before")
    @classmethod
    def _unset_if_empty(cls, given: Any) -> Any:
        # what other tools leave empty, and what hides them from a process that is not to have them
        return given or None
