"""LangChain: a chat's messages as a history, and what was said in it as documents."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import cast

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever

from backscroll_client import parts
from backscroll_client.client import Backscroll
from backscroll_client.errors import Unavailable
from backscroll_client.values import Message, Role

ROLES: dict[str, Role] = {
    **dict.fromkeys(("human", "user"), cast("Role", "user")),
    **dict.fromkeys(("ai", "assistant", "model", "bot"), cast("Role", "assistant")),
    **dict.fromkeys(("system", "developer"), cast("Role", "system")),
}
TYPES: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
WHOLE = "langchain"
"""The metadata of what is more than words: all of it as JSON, beside its words or, of calls of tools and their results,
as the content."""
SAID = "said"
"""Marks words of which the next message holds all, with the calls of tools."""
REMOVE_ALL = "__remove_all__"
MAX_ID_CHARS = 240
"""The API takes 255."""


class BackscrollChatMessageHistory(BaseChatMessageHistory):
    """The latest `limit` messages of a chat, in which `user_id` speaks with the model."""

    def __init__(self, memory: Backscroll, chat_id: str, user_id: str, *, limit: int = 100) -> None:
        self.memory, self.chat_id, self.user_id, self.limit = memory, chat_id, user_id, limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, the newest last."""
        latest = self.memory.latest(self.chat_id, limit=self.limit)
        return [_of(message) for message in latest if message["metadata"].get(WHOLE) != SAID]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Hand them over, and delete what a `RemoveMessage` names."""
        for is_removal, of_kind in groupby(messages, lambda message: isinstance(message, RemoveMessage)):
            if not is_removal:
                said = [each for message in of_kind for each in self._as_messages(message)]
                self.memory.add(self.chat_id, *said)
                continue
            for message in of_kind:
                if message.id == REMOVE_ALL:
                    self.clear()
                else:
                    self.memory.delete(self.chat_id, str(message.id))
                    self.memory.delete(self.chat_id, f"{message.id}:calls")

    def clear(self) -> None:
        """Delete all messages of the chat for good. Raises `Unavailable` where a deletion waits in the buffer."""
        while messages := self.memory.latest(self.chat_id, limit=1000):
            for message in messages:
                if not self.memory.delete(self.chat_id, message["external_id"]):
                    raise Unavailable("not all is deleted: clear it again when the API is back")

    def _as_messages(self, message: BaseMessage) -> list[Message]:
        """Return what was said, and after it calls of tools, or a tool's result, as JSON."""
        message = message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
        role, said = _role(message), parts.words(message.content)
        value = parts.without_data(message_to_dict(message))
        is_said = role != "tool" and bool(said or not (message.content or _calls(message)))
        named = {"external_id": message.id} if message.id and len(message.id) <= MAX_ID_CHARS else {}
        messages: list[Message] = []
        if is_said:
            sender = self.user_id if role == "user" else f"langchain:{role}"
            messages.append(cast("Message", {"sender_id": sender, "role": role, "content": said, **named}))
            if message.name:
                messages[0]["sender_name"] = message.name
            if _calls(message):
                messages[0]["metadata"] = {WHOLE: SAID}
            elif written := parts.whole(value, message.content):
                messages[0]["metadata"] = {WHOLE: written}
        if not is_said or _calls(message):
            if is_said and named:
                named = {"external_id": f"{message.id}:calls"}
            content = json.dumps(value, ensure_ascii=False)
            metadata = {WHOLE: message.type}
            messages.append(
                cast(
                    "Message",
                    {
                        "sender_id": "langchain:tool",
                        "role": "tool",
                        "content": content,
                        "metadata": metadata,
                        **named,
                    },
                )
            )
        return messages


def _role(message: BaseMessage) -> Role:
    role = message.role if isinstance(message, ChatMessage) else message.type
    return ROLES.get(role, "tool")


def _calls(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)


def _of(message: Message) -> BaseMessage:
    kept = message["metadata"].get(WHOLE)
    if kept is not None:
        value = json.loads(message["content"] if message["role"] == "tool" else kept)
        (restored,) = messages_from_dict([value])
        # unless its words were edited since
        if message["role"] == "tool" or parts.are_of(message["content"], restored.content):
            return restored
    return TYPES.get(message["role"], HumanMessage)(message["content"])


class BackscrollRetriever(BaseRetriever):
    """The messages of a chat that answer a question best."""

    memory: Backscroll
    chat_id: str
    limit: int = 10

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        hits = self.memory.search(self.chat_id, query, limit=self.limit)["hits"]
        named = ("external_id", "speaker", "role", "at", "score")
        return [Document(hit["text"], id=hit["id"], metadata={n: hit[n] for n in named}) for hit in hits]
