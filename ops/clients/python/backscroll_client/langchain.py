"""LangChain: a chat's messages as a history, and what was said in it as documents."""

import json
from collections.abc import Sequence

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever

from backscroll_client.client import Backscroll
from backscroll_client.errors import Unavailable
from backscroll_client.values import Message, Role

ROLES: dict[str, Role] = {"human": "user", "ai": "assistant", "system": "system"}
TYPES: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
WHOLE = "langchain"
"""Marks messages whose content is all of them as JSON: tool calls and their results, images."""


class BackscrollChatMessageHistory(BaseChatMessageHistory):
    """The latest `limit` messages of a chat, in which `user_id` speaks with the model."""

    def __init__(self, memory: Backscroll, chat_id: str, user_id: str, *, limit: int = 100) -> None:
        self.memory, self.chat_id, self.user_id, self.limit = memory, chat_id, user_id, limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, the newest last."""
        return [_of(message) for message in self.memory.latest(self.chat_id, limit=self.limit)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Hand them over."""
        if messages:
            self.memory.add(self.chat_id, *map(self._as_message, messages))

    def clear(self) -> None:
        """Delete all messages of the chat for good. Raises `Unavailable` where a deletion waits in the buffer."""
        while messages := self.memory.latest(self.chat_id, limit=1000):
            for message in messages:
                if not self.memory.delete(self.chat_id, message["external_id"]):
                    raise Unavailable("not all is deleted: clear it again when the API is back")

    def _as_message(self, message: BaseMessage) -> Message:
        role = ROLES.get(message.type, "tool")
        sender = self.user_id if role == "user" else f"langchain:{role}"
        if role != "tool" and isinstance(message.content, str) and not getattr(message, "tool_calls", None):
            return {"sender_id": sender, "role": role, "content": message.content}
        whole = json.dumps(message_to_dict(message), ensure_ascii=False)
        return {"sender_id": sender, "role": "tool", "content": whole, "metadata": {WHOLE: message.type}}


def _of(message: Message) -> BaseMessage:
    if WHOLE in message["metadata"]:
        return messages_from_dict([json.loads(message["content"])])[0]
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
