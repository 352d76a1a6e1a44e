"""Payloads of requests and tasks, a versioned model each.

A payload names its version in `v`. Payload models ignore unknown fields of the same version, so that old workers
understand new senders; an unknown version is refused.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from schemas.base import Closed, Frozen, at_most, in_words
from schemas.errors import InvalidInput
from schemas.messages import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    ChatIn,
    Content,
    Id,
    IdOrEmpty,
    LanguageOrAuto,
    MessageIn,
    Queries,
    QueryText,
    SaidAt,
    cleaned,
)
from schemas.sessions import key_of
from schemas.settings import MAX_BUDGET_TOKENS, MAX_HISTORY_TOKENS

T = TypeVar("T", bound=BaseModel)

TenantId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]


def _known(model: type[BaseModel], value: Any) -> Any:
    """Return the value without fields that this version does not know."""
    known = model.model_fields
    return {name: value[name] for name in value if name in known} if isinstance(value, dict) else value


def _chat(value: Any) -> Any:
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return {"chat_id": value} if is_id else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


def _not_too_much(messages: list[MessageIn]) -> list[MessageIn]:
    size = sum(len(message.content.encode()) for message in messages)
    if size > MAX_BATCH_BYTES:
        raise ValueError(
            f"hold {size} bytes of text; at most {MAX_BATCH_BYTES} are taken at once: send them in parts"
        )
    return messages


class IngestPayload(Frozen):
    """Messages of one chat: the body of `POST /v1/messages` and the arguments of `backscroll.ingest`."""

    v: Literal[1] = 1
    tenant: TenantId | None = None
    """The owner of the chat; over HTTP, the API key decides it."""
    chat: Annotated[ChatIn, BeforeValidator(_chat, json_schema_input_type=ChatIn | Id)]
    """The chat's id, or an object with its title, kind, time zone and language."""
    messages: Annotated[
        list[MessageIn],
        BeforeValidator(_several, json_schema_input_type=list[MessageIn] | MessageIn),
        at_most(MAX_BATCH),
        Field(min_length=1, max_length=MAX_BATCH),
        AfterValidator(_not_too_much),
    ]
    """One message or a list."""


class QueuedIngest(IngestPayload):
    """The same from a queue or webhook, whose sender may be newer than this program and hears of no refusal."""

    @model_validator(mode="before")
    @classmethod
    def _tolerant(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        messages = _several(value.get("messages"))
        if isinstance(messages, list) and len(messages) <= MAX_BATCH:
            messages = [_known(MessageIn, message) for message in messages]
        return value | {"chat": _known(ChatIn, value.get("chat")), "messages": messages}


class ChatAddress(Frozen):
    """A chat by id."""

    chat_id: Id


class NewId(Closed):
    """The new id of a chat: the body of `POST /v1/chats/{chat_id}/rename`."""

    to: Id


class MemorySwitch(Closed):
    """Whether memory is on: the body of `PUT /v1/chats/{chat_id}/memory` and `PUT /v1/users/{user_id}/memory`."""

    memory: Annotated[bool, Field(strict=True)]


class LanguageChoice(Closed):
    """A chat's language: the body of `PUT /v1/chats/{chat_id}/language`."""

    language: LanguageOrAuto
    """By name or ISO 639 code, such as `german`, `de` or `german+english`; `auto`: it is detected."""


class EditPayload(Frozen):
    """A message's new text: the body of `PATCH /v1/messages/{chat_id}/{external_id}`."""

    v: Literal[1] = 1
    content: Content
    edited_at: SaidAt | None = None
    """The platform's time of the edit; the newest edit wins. Null: now."""


class MessageAddress(Frozen):
    """A message by its platform's id."""

    chat_id: Id
    external_id: Id


class DeletionEvent(MessageAddress):
    """A message that is deleted, and by whom: the data of a webhook `message.deleted`."""

    sender_id: Id | None = None
    """Who deletes it: only what they sent themselves is deleted. Null: your bot has seen to it that they may."""


class EditEvent(EditPayload, MessageAddress):
    """A message's new text, and which message: the data of a webhook `message.edited`."""

    sender_id: Id | None = None
    """Who edits it: only what they sent themselves is changed. Null: your bot has seen to it that they may."""


ORIGINAL_NAMES = {
    "sessionId": "session_key",
    "topKDocs": "top_k_documents",
    "topKMems": "top_k_memories",
    "maxHistoryTokens": "max_history_tokens",
    "includeHistory": "include_history",
}
"""The fields of a question by the names that users of `ask` know; both are taken."""


MAX_COUNT = 100
"""Of everything that a context counts."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Share = Annotated[float, Field(ge=0, le=1)]


class ContextParameters(Frozen):
    """What of its profile a question may change; null: as the profile says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    history_tokens: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Tokens of recent messages."""
    sessions: Count | None = None
    """Of the best sessions, those that say what they were about, and that `contextual` looks into; as many of the weeks
    that the question names."""
    messages: Count | None = None
    """Best messages."""
    messages_per_session: Count | None = None
    """Best messages of one session."""
    neighbours: Count | None = None
    """Messages shown on either side of each of the best."""
    related: Count | None = None
    """Sessions that share topics with those that are shown."""
    memories: Count | None = None
    """Statements, of all scopes together."""
    documents: Count | None = None
    """Passages of documents."""
    entity_hops: Annotated[int, Field(ge=0, le=1)] | None = None
    """1: also memories of what is related to what the question names."""
    min_similarity: Share | None = None
    """Messages worth less than this share of the best ones are left out; below 0.45 nothing is shown anyway."""
    min_session_fit: Share | None = None
    """Look only into the best sessions, those that probably answer by at least this; 0: as the profile does."""
    daily_decay: Share | None = None
    """What remains of a message's score after a day."""
    mmr_lambda: Share | None = None
    """Below 1, messages that are similar to better ones make way (maximal marginal relevance)."""

    @model_validator(mode="before")
    @classmethod
    def _is_open(cls, value: Any) -> Any:
        closed = [name for name in value if name not in cls.model_fields] if isinstance(value, dict) else []
        if closed:
            raise ValueError(f"a question cannot change {closed[0]!r}, only {', '.join(cls.model_fields)}")
        return value


class ContextQuery(Closed):
    """A question that a bot must answer: the body of `POST /v1/context`."""

    chat_id: Id
    """The chat that the bot answers in."""
    query: QueryText
    """The question, or the message that the bot reacts to."""
    queries: Queries = Field(default_factory=list)
    """Other wordings that are searched together with the question: rewrites, a translation, a hypothetical answer.
    A match with one of them counts somewhat less. Times, names and the kind of answer are read off the question only.
    """
    hyde: bool = False
    """Whether a language model (BACKSCROLL_HYDE_MODEL) makes up an answer to search with, where the question itself
    finds little. It may take 5 seconds; if none comes, `degraded` says why."""
    user_id: IdOrEmpty | None = None
    agent_id: IdOrEmpty | None = None
    session_key: IdOrEmpty | None = None
    """Only sessions with this key. Null: all sessions of the chat. Also: `sessionId`."""
    thread: IdOrEmpty | None = None
    """The forum topic or thread that the bot answers in: recent messages are only from it."""
    as_of: SaidAt | None = None
    """Only what was said and believed before this time. Null: until now."""
    profile: str = "balanced"
    budget_tokens: Annotated[int, Field(ge=50, le=MAX_BUDGET_TOKENS)] | None = None
    model: Annotated[str, BeforeValidator(cleaned), Field(max_length=200)] | None = None
    """The model that reads the context, such as `gpt-4.1-mini`: its tokenizer counts, if available."""
    include_history: bool = True
    """Whether the latest messages are shown. Also: `includeHistory`."""
    max_history_tokens: Annotated[int, Field(ge=0, le=MAX_HISTORY_TOKENS)] | None = None
    """The maximum of tokens of the latest messages. Null: as the profile says. Also: `maxHistoryTokens`."""
    alternate_roles: bool = False
    """Whether `messages` alternate between user and assistant, as the templates of some models require."""
    fill: bool = False
    """Whether all of the budget is spent, also on what has little to do with the question."""
    top_k_memories: Annotated[int, Field(ge=0, le=100)] | None = None
    """The maximum of memories. Null: as the profile says. Also: `topKMems`."""
    top_k_documents: Annotated[int, Field(ge=0, le=100)] | None = None
    """The maximum of passages of documents. Null: as the profile says. Also: `topKDocs`."""
    parameters: ContextParameters = Field(default_factory=ContextParameters)
    explain: bool = False

    @model_validator(mode="before")
    @classmethod
    def _by_original_names(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = {name: content for name, content in value.items() if name not in ORIGINAL_NAMES}
        for name in value.keys() & ORIGINAL_NAMES.keys():
            key = ORIGINAL_NAMES[name]
            if fields.setdefault(key, value[name]) != value[name]:
                raise ValueError(f"{key} and {name} are one field, and their values differ: give one of them")
        return fields

    @property
    def talk_key(self) -> str | None:
        """The session key of the recent messages to show; None: those of the whole chat."""
        return self.session_key if self.session_key is not None else key_of("", self.thread) or None


def parse_payload(model: type[T], value: Any, context: dict[str, str] | None = None) -> T:
    """Validate a payload, in the context `FROM_PLATFORM` with what is too long cut.

    Raises `InvalidInput` that names each wrong field and what is allowed; its `field` is the first one.
    """
    try:
        return model.model_validate(value, context=context)
    except ValidationError as error:
        message, field = in_words(error.errors(include_url=False), model)
        raise InvalidInput(message, field=field) from None
