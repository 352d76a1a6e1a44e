"""What tasks and requests carry, one versioned model each.

A payload names its version in `v`. Unknown fields of the same version are ignored, so that old workers
understand new senders; an unknown version is refused untouched.
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

from schemas.errors import InvalidInput
from schemas.limits import Closed, at_most
from schemas.messages import (
    MAX_BATCH,
    MAX_BATCH_BYTES,
    MAX_ID_CHARS,
    ChatIn,
    Content,
    Id,
    MessageIn,
    SaidAt,
    cleaned,
)
from schemas.sessions import key_of

T = TypeVar("T", bound=BaseModel)

TenantId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]


def _known(model: type[BaseModel], value: Any) -> Any:
    """Without the fields that this version does not know."""
    known = model.model_fields
    return {name: value[name] for name in value if name in known} if isinstance(value, dict) else value


def _chat(value: Any) -> Any:
    return {"chat_id": value} if isinstance(value, str) else value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


def _not_too_much(messages: list[MessageIn]) -> list[MessageIn]:
    size = sum(len(message.content.encode()) for message in messages)
    if size > MAX_BATCH_BYTES:
        raise ValueError(
            f"hold {size} bytes of text; at most {MAX_BATCH_BYTES} are taken at once: send them in parts"
        )
    return messages


class IngestPayload(BaseModel):
    """Messages of one chat: the body of `POST /v1/messages` and the arguments of `backscroll.ingest`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    # whose chat it is; the door takes it from the API key
    tenant: TenantId | None = None
    # the chat's id, or an object with its title, kind, time zone and language
    chat: Annotated[ChatIn, BeforeValidator(_chat)]
    # one message or a list
    messages: Annotated[
        list[MessageIn],
        BeforeValidator(_several),
        at_most(MAX_BATCH),
        Field(min_length=1, max_length=MAX_BATCH),
        AfterValidator(_not_too_much),
    ]


class QueuedIngest(IngestPayload):
    """The same from the queue: its sender may be newer than this program, and hears no refusal."""

    @model_validator(mode="before")
    @classmethod
    def _tolerant(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        messages = _several(value.get("messages"))
        if isinstance(messages, list) and len(messages) <= MAX_BATCH:
            messages = [_known(MessageIn, each) for each in messages]
        return value | {"chat": _known(ChatIn, value.get("chat")), "messages": messages}


class ChatAddress(BaseModel):
    """A chat, as it stands in a path."""

    model_config = ConfigDict(frozen=True)

    chat_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


class NewId(Closed):
    """The id that a chat has from now on: the body of `POST /v1/chats/{chat_id}/rename`."""

    to: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


class MessageAddress(ChatAddress):
    """A message by its platform's id, as it stands in a path."""

    external_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


class ReceiptAddress(BaseModel):
    """A receipt of forgetting by its number, as it stands in a path."""

    model_config = ConfigDict(frozen=True)

    receipt: Annotated[int, Field(ge=1, lt=2**63)]


class ContextAddress(BaseModel):
    """A context by the id that it was served with, as it stands in a path."""

    model_config = ConfigDict(frozen=True)

    context_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


class MemorySwitch(Closed):
    """Whether something is remembered: the body of `PUT /v1/chats/{chat_id}/memory`, and of the same of a user."""

    memory: Annotated[bool, Field(strict=True)]


class EditPayload(BaseModel):
    """A message's new text: the body of `PATCH /v1/messages/{chat_id}/{external_id}`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: Literal[1] = 1
    content: Content
    # when it was edited, by the platform's clock: the newest edit wins; none: now
    edited_at: SaidAt | None = None


class ContextQuery(Closed):
    """What a bot asks when it must answer: the body of `POST /v1/context`."""

    # the chat that the bot answers in
    chat_id: Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]
    # the question, or what the bot is about to react to
    query: Annotated[str, BeforeValidator(cleaned), Field(min_length=1, max_length=8000)]
    user_id: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    agent_id: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    # of one thread alone; none: over all the chat's sessions
    session_key: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    # the forum's topic or thread that the bot answers in: recent talk is of that one alone
    thread: Annotated[Id, Field(max_length=MAX_ID_CHARS)] | None = None
    profile: str = "balanced"
    budget_tokens: Annotated[int, Field(ge=50, le=200_000)] | None = None
    # the language model that will read it, `gpt-4.1-mini`: its tokenizer counts, where it is at hand
    model: Annotated[str, BeforeValidator(cleaned), Field(max_length=200)] | None = None
    include_history: bool = True
    # how many memories and passages of documents at most; none: as many as the profile says
    top_k_memories: Annotated[int, Field(ge=0, le=100)] | None = None
    top_k_documents: Annotated[int, Field(ge=0, le=100)] | None = None
    # overrides of the profile's parameters by name
    parameters: dict[str, Any] = Field(default_factory=dict)
    explain: bool = False

    @property
    def talk_key(self) -> str | None:
        """The session key of the talk that the bot answers in; none: all of the chat's."""
        return self.session_key if self.session_key is not None else key_of("", self.thread) or None


def parse_payload(model: type[T], value: Any) -> T:
    """The payload as its model.

    Raises `InvalidInput` that names each wrong field and what is allowed; its `field` is the first one.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        names = [".".join(str(part) for part in problem["loc"]) or "body" for problem in problems]
        told = [f"{name}: {_told(problem)}" for name, problem in zip(names, problems, strict=True)]
        more = f" (and {len(told) - 5} more)" if len(told) > 5 else ""
        raise InvalidInput("; ".join(told[:5]) + more, field=names[0]) from None


def _told(problem: Any) -> str:
    """What is wrong and what is allowed. Pydantic counts the "items" of a text that was cleaned first."""
    limits = problem.get("ctx", {})
    if problem["type"] in {"too_short", "too_long"} and limits["field_type"] == "Value":
        bound = (
            f"at least {limits['min_length']}"
            if problem["type"] == "too_short"
            else f"at most {limits['max_length']}"
        )
        return f"must have {bound} characters, not {limits['actual_length']}"
    return str(problem["msg"]).removeprefix("Value error, ")
