"""What can be configured: `BACKSCROLL_…` in the environment, in `.env`, or in the file of `BACKSCROLL_CONFIG`.

The docstrings are what `ops/guide/configuration.md` says: `backscroll dev docs` writes it.
"""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.facts import RULES
from schemas.kinds import NEEDS, ROLLUP
from schemas.server_urls import (
    Network,
    hosts_and_networks,
    http_url,
    networks_of,
    postgres_parameters,
    redis_url,
    without_secrets,
)
from schemas.sessions import EXTRACTIVE

PREFIX = "BACKSCROLL_"
MAX_BUDGET_TOKENS = 200_000
MAX_HISTORY_TOKENS = 100_000
_HEADER_VALUE = re.compile("[!-~]*")
_OF_POSTGRES = (
    *("database_url", "database_read_url"),
    *(f"{role}_database_url" for role in ("maintenance", "owner", "backup")),
)
_OF_ONE_PROCESS = {
    *_OF_POSTGRES,
    *("redis_url", "data_dir", "url", "tenant", "api_key", "host", "port", "api_processes", "flower_port"),
    *("metrics_host", "metrics_port", "log_level", "worker_heartbeat_file"),
}


def _also(prefix: str, name: str, default: Any) -> Any:
    """Return the default of a setting that is also read with the prefix of the tools that people come from."""
    return Field(default, validation_alias=AliasChoices(PREFIX + name, prefix + name))


# Empty is unset: so a secret in a file that every process reads is hidden from those that are not to have it.
Secret = Annotated[SecretStr | None, BeforeValidator(lambda value: value or None)]


HttpUrl = Annotated[str, AfterValidator(http_url)]


def _split(listed: str | None) -> list[str]:
    return [item for item in map(str.strip, (listed or "").split(",")) if item]


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

    database_url: Secret = None
    """Postgres, as the role that sees one tenant at a time. Unset: the embedded one."""
    database_read_url: Secret = None
    """The same at a standby, for [contexts and searches](large.md#a-read-replica) of the HTTP API."""
    maintenance_database_url: Secret = None
    """The same, as the role that claims jobs of all tenants."""
    owner_database_url: Secret = None
    """The same, as the owner of the tables, for migrations and indexes."""
    backup_database_url: Secret = None
    """The same, as the role that reads all tenants, for `backscroll backup`."""
    redis_url: Secret = None
    """Redis. Unset: the embedded one. `rediss://` verifies certificates, by your own CA with
    `?ssl_ca_certs=/path/ca.pem`."""
    data_dir: Path = Field(default_factory=_default_data_dir)
    """Folder of `backscroll up`: `/var/lib/backscroll` as root, else `~/.local/share/backscroll`."""
    url: HttpUrl | None = None
    """HTTP API that commands ask. Unset: that of the running `backscroll up`."""

    tenant: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")] = "default"
    """Tenant of `BACKSCROLL_API_KEY`, and of tasks and commands that name none."""
    api_key: Secret = None
    """Key with all scopes; `backscroll up` generates one."""
    host: str = "127.0.0.1"
    """Address of the HTTP API."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8420
    """Port of the HTTP API. 0, or unset in `backscroll up`: a free one."""
    api_processes: Annotated[int, Field(ge=1, le=16)] | None = None
    """Processes, each with up to 27 connections to Postgres. Unset: 2, or 1 on one core."""
    flower_port: Annotated[int, Field(ge=0, le=65535)] = 8421
    """Port of Flower in `backscroll up`; likewise."""
    metrics_host: str = "127.0.0.1"
    """Address of `/metrics`, which needs no key."""
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 8422
    """Port of `/metrics`; likewise."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], BeforeValidator(lambda value: str(value).lower())
    ] = "info"
    """Of workers and HTTP API."""

    session_memory_enabled: bool = _also("CONTEXT_", "SESSION_MEMORY_ENABLED", True)
    """Off: contexts show only messages and documents; nothing is summarized or learned."""
    session_gap_minutes: Annotated[float, Field(gt=0, le=10080)] = _also(
        "CONTEXT_", "SESSION_GAP_MINUTES", 30
    )
    """Longest pause within a session."""
    session_min_messages: Annotated[int, Field(ge=1, le=1000)] = _also("CONTEXT_", "SESSION_MIN_MESSAGES", 4)
    """Messages that a session needs to be summarized."""
    session_max_retrieved: Annotated[int, Field(ge=0, le=100)] = _also("CONTEXT_", "SESSION_MAX_RETRIEVED", 3)
    """`sessions` of the profiles `balanced` and `group`."""
    session_summarization_enabled: bool = _also("CONTEXT_", "SESSION_SUMMARIZATION_ENABLED", True)
    """Off: sessions are only cut and searched."""
    session_summary_model: Annotated[str, Field(min_length=1, max_length=200)] = _also(
        "CONTEXT_", "SESSION_SUMMARY_MODEL", EXTRACTIVE
    )
    """`extractive-v1` on this machine, or a language model, which is sent the transcripts."""
    session_summary_timeout_seconds: Annotated[float, Field(ge=1, le=3600)] = 60
    """Longest wait for a language model, less than `LEASE_SECONDS`."""
    session_summary_context_tokens: Annotated[int, Field(ge=4000, le=2_000_000)] = 16_000
    """The model's window, answer included (Ollama: `num_ctx`). Longer sessions are summarized in parts."""
    session_summary_every: Annotated[int, Field(ge=1, le=1000)] = 1
    """In chats with fewer than seven sessions a week, the language model summarizes every n-th."""
    session_summary_canaries: str | None = None
    """Comma-separated chats. Only these are summarized by the language model."""
    session_summary_version: Annotated[int, Field(ge=1)] = _also("CONTEXT_", "SESSION_SUMMARY_VERSION", 1)
    """Raise it to have a backfill summarize sessions again."""
    rollups_enabled: bool = False
    """Also summarize weeks, by a language model."""
    session_rolling_messages: Annotated[int, Field(ge=4, le=10000)] = 60
    """New messages, or …"""
    session_rolling_tokens: Annotated[int, Field(ge=200, le=1_000_000)] = 6000
    """… tokens after which an open session is summarized."""

    llm_answer_tokens: Annotated[int, Field(ge=100, le=200_000)] = 900
    """Tokens of its answer, at most a quarter of the window; models that reason need more."""
    llm_daily_budget: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars of a tenant a day (UTC)."""
    llm_daily_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens, in and out, of a tenant a day."""
    llm_budget_spent: Literal["wait", "extract"] = "wait"
    """Then sessions `wait` for the next day, or are summarized without a model."""
    llm_prices: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    """TOML file of prices: `["model"]`, `input = 0.4`, `output = 1.6` in US dollars per million tokens."""
    llm_calls_days: Annotated[int, Field(ge=1)] = 90
    """Days that calls stay recorded."""
    llm_max_concurrent: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Concurrent calls to a provider, by all workers."""
    llm_requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Calls to a provider a minute."""
    llm_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Tokens to and from it a minute."""

    embedding_provider: (
        Literal["deterministic", "onnx", "sentence-transformers", "ollama", "openai"] | None
    ) = _also("VECTOR_", "EMBEDDING_PROVIDER", None)
    """[What embeds](operating.md#embedding-models); `deterministic` hashes words. Unset: `onnx` if installed, else
    that."""
    embedding_model: str | None = _also("VECTOR_", "EMBEDDING_MODEL", None)
    """Model that a new database begins with, or its folder. Unset: `multilingual-e5-small`, or else `all-MiniLM-L6-v2`;
    `nomic-embed-text` (`ollama`), `text-embedding-3-small` (`openai`)."""
    embedding_max_chars: Annotated[int, Field(ge=100, le=100_000)] = 16_000
    """Characters of a text that are embedded, in at most 32 chunks."""
    embedding_batch_size: Annotated[int, Field(ge=1, le=1000)] = 32
    """Most texts embedded at once, or in one request."""
    embedding_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = _also(
        "VECTOR_", "EMBEDDING_TIMEOUT_SECONDS", 12
    )
    """Longest wait for an embedding server, less than `LEASE_SECONDS`; of a question 3 s."""
    embedding_query_prefix: Annotated[str, Field(max_length=1000)] | None = None
    """Put before a question. Unset: what the model's card asks for."""
    embedding_document_prefix: Annotated[str, Field(max_length=1000)] | None = None
    """Put before any other text. Unset: likewise."""
    embedding_pooling: Literal["mean", "cls", "max", "lasttoken"] | None = None
    """How `sentence-transformers` pools tokens. Unset: as the model's files say."""
    embedding_dimensions: Annotated[int, Field(ge=2, le=16_000)] | None = None
    """For models that can shorten vectors; at most 4000 for an index. Unset: the model's own."""
    ollama_url: HttpUrl = "http://127.0.0.1:11434"
    """Server of the provider `ollama`."""
    openai_base_url: HttpUrl | None = _also("", "OPENAI_BASE_URL", None)
    """Server with OpenAI's protocol. Unset: `https://api.openai.com/v1`."""
    openai_api_key: Secret = _also("", "OPENAI_API_KEY", None)
    """Key for that server."""
    reranker_model: str | None = None
    """Cross-encoder that rescores the 20 best messages: a folder, or a name on the Hugging Face hub or at
    `RERANKER_URL`."""
    reranker_url: HttpUrl | None = None
    """Server that is sent these: `/rerank` of Cohere, Jina or vLLM (with `RERANKER_MODEL`), or of
    text-embeddings-inference (without). It has 0.3 s."""
    reranker_api_key: Secret = None
    """Key for that server."""
    hyde_model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Language model that is sent a question with `hyde`, to make up an answer to search with."""

    memory_learning_enabled: bool = True
    """Learn facts from sessions."""
    memory_model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What learns facts: `rules-v1` (only what people ask a bot to keep), or a language model. Unset: the
    one that summarizes, if any."""
    memory_facts_per_session: Annotated[int, Field(ge=1, le=20)] = 3
    """Facts learned from one session."""
    memory_session_ttl_minutes: Annotated[float, Field(gt=0, le=525_600)] = 60
    """Pause after which a session with a `session_key` closes, and its unused memories expire."""
    memory_session_max: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Memories kept of one session."""
    memory_summary_turns: Annotated[int, Field(ge=2, le=5000)] = 6
    """Turns of two messages after which an open session with a `session_key` is summarized."""
    memory_user_max: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Memories kept of one user; history goes first."""
    memory_history_days: Annotated[int, Field(ge=1)] = 400
    """Days that history is kept."""
    memory_answers_days: Annotated[int, Field(ge=1)] = 90
    """Days that a remembered answer is kept without being shown."""
    memory_min_importance: Annotated[float, Field(ge=0, le=10)] = 0.5
    """Importance from which a memory about a user is shown."""

    context_budget_tokens: Annotated[int, Field(ge=50, le=MAX_BUDGET_TOKENS)] = 2000
    """Tokens of a context without `budget_tokens`."""
    context_history_tokens: Annotated[int, Field(ge=0, le=MAX_HISTORY_TOKENS)] = 800
    """`history_tokens` of the profiles `balanced` and `group`."""
    secrets: Literal["mask", "keep"] = "mask"
    """Whether [credentials](people-and-privacy.md#secrets) are masked before they are stored."""
    query_log_enabled: bool = True
    """Record questions, what was shown, and answers."""
    remember_answers: bool = False
    """Make reported answers memories of who asked."""

    digest_hosts: Annotated[str | None, AfterValidator(hosts_and_networks)] = None
    """Comma-separated hosts that daily digests may be sent to, over https and at public addresses only; an address or a
    network (10.0.0.0/8) among them allows what is there, too, and http. Unset: none."""

    retention_days: Annotated[int, Field(ge=1)] | None = None
    """Messages older than this are pruned."""
    retention_messages_per_chat: Annotated[int, Field(ge=1)] | None = None
    """Newest messages kept of a chat."""
    query_log_days: Annotated[int, Field(ge=1)] = 90
    """Days that questions and answers stay recorded."""
    pending_edit_days: Annotated[int, Field(ge=1)] = 30
    """Days that an edit waits for its message, and a refused payload is kept."""

    sweep_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 5
    """How often idle sessions are closed and lost wake-ups repeated."""
    lease_seconds: Annotated[float, Field(ge=1, le=3600)] = 120
    """How long a worker may take for a job."""
    job_max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Failures after which a job is a dead letter."""
    summarize_debounce_seconds: Annotated[float, Field(ge=0, le=86_400)] = 5
    """How long a closed session waits for late messages."""
    settle_seconds: Annotated[float, Field(ge=0, le=86_400)] = 10
    """How long an import's sessions wait for its last message."""
    worker_heartbeat_file: Path | None = None
    """File that a worker touches every two seconds."""
    backlog_max_messages: Annotated[int, Field(ge=1)] = 200_000
    """Waiting messages above which the HTTP API answers 503."""
    payload_tenants: str | None = None
    """Comma-separated tenants that Celery tasks may write to. Unset: any."""

    def stated(self) -> dict[str, Any]:
        """Return what is not as by default, for others to read: no secrets, and nothing of this process alone."""
        defaults = Settings.model_construct().model_dump(mode="json", exclude=_OF_ONE_PROCESS)
        return {
            name: without_secrets(value) if name.endswith("_url") else value
            for name, value in self.model_dump(mode="json", exclude=_OF_ONE_PROCESS).items()
            if value != defaults[name]
        }

    def learning_model(self) -> str:
        """Return the name of what learns facts."""
        if self.memory_model is not None:
            return self.memory_model
        return RULES if self.session_summary_model == EXTRACTIVE else self.session_summary_model

    def rolls_up(self) -> bool:
        """Tell whether weeks are summarized."""
        return self.switched_off(ROLLUP.name) is None and self.session_summary_model != EXTRACTIVE

    def switched_off(self, kind: str) -> str | None:
        """Return the variable that keeps a kind of `NEEDS` from being done, as it is off; None: none does."""
        return next((PREFIX + name.upper() for name in NEEDS.get(kind, ()) if not getattr(self, name)), None)

    def summary_canaries(self) -> frozenset[str]:
        """Return the chats that alone a language model summarizes; none: all."""
        return frozenset(_split(self.session_summary_canaries))

    def webhook_hosts(self) -> list[str]:
        """Return the hosts that digests may be sent to; addresses among them, and no networks."""
        return [host for host in _split(self.digest_hosts) if "/" not in host]

    def webhook_networks(self) -> list[Network]:
        """Return the networks that digests may be sent to though they may be private."""
        return networks_of(_split(self.digest_hosts))

    def takes_payloads_of(self, tenant: str) -> bool:
        """Tell whether payload tasks may write to a tenant."""
        return not self.payload_tenants or tenant in self.payload_tenants.replace(" ", "").split(",")

    def named_rolling_messages(self) -> int:
        """Return after how many new messages an open session that an agent named is summarized."""
        return min(self.session_rolling_messages, 2 * self.memory_summary_turns)

    def session_lifetime(self) -> timedelta:
        """Return how long a session's memories live after they were last written or shown."""
        return timedelta(minutes=self.memory_session_ttl_minutes)

    @field_validator("redis_url")
    @classmethod
    def _verifies_certificates(cls, url: SecretStr | None) -> SecretStr | None:
        return url and SecretStr(redis_url(url.get_secret_value()))

    @field_validator(*_OF_POSTGRES)
    @classmethod
    def _is_postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            postgres_parameters(url.get_secret_value())
        return url

    @field_validator("api_key", "openai_api_key", "reranker_api_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not _HEADER_VALUE.fullmatch(key.get_secret_value()):
            raise ValueError("must be printable ASCII characters without spaces and line ends")
        return key

    @field_validator("openai_base_url", mode="before")
    @classmethod
    def _unset_if_empty(cls, value: Any) -> Any:
        # as other tools leave it
        return value or None
