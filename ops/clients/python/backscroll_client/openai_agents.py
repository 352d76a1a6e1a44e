"""OpenAI Agents: a chat as a session, and its memory before each call of the model."""

import json
from typing import Any, cast

from agents import SessionSettings, TResponseInputItem
from agents.run import CallModelData, ModelInputData

from backscroll_client.client import AsyncBackscroll
from backscroll_client.errors import Unavailable
from backscroll_client.values import Message

MAX_ITEMS = 1000
WHOLE = "openai"
"""Marks messages whose content is all of an item as JSON: tool calls and their results, reasoning, images."""


class BackscrollSession:
    """The messages of the chat `session_id`, in which `user_id` speaks with the agent."""

    session_settings: SessionSettings | None = None

    def __init__(
        self, memory: AsyncBackscroll, session_id: str, user_id: str, *, agent_id: str = "agent"
    ) -> None:
        self.memory, self.session_id, self.user_id, self.agent_id = memory, session_id, user_id, agent_id

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, the newest last."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        messages = await self.memory.latest(self.session_id, limit=min(limit or MAX_ITEMS, MAX_ITEMS))
        return [_item(message) for message in messages]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Hand them over."""
        if items:
            await self.memory.add(
                self.session_id, *(self._message(cast("dict[str, Any]", item)) for item in items)
            )

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item for good, and return it."""
        for message in await self.memory.latest(self.session_id, limit=1):
            await self.memory.delete(self.session_id, message["external_id"])
            return _item(message)
        return None

    async def clear_session(self) -> None:
        """Delete all messages of the chat for good. Raises `Unavailable` where a deletion waits in the buffer."""
        while messages := await self.memory.latest(self.session_id, limit=MAX_ITEMS):
            for message in messages:
                if not await self.memory.delete(self.session_id, message["external_id"]):
                    raise Unavailable("not all is deleted: clear it again when the API is back")

    async def with_memory(self, data: CallModelData[Any]) -> ModelInputData:
        """Add what memory knows of the newest question to the instructions: `RunConfig(call_model_input_filter=…)`."""
        model_data = data.model_data
        asked = (
            _text(cast("dict[str, Any]", item))
            for item in reversed(model_data.input)
            if item.get("role") == "user"
        )
        if not (question := next(asked, None)):
            return model_data
        context = await self.memory.context(
            self.session_id, question, user_id=self.user_id, include_history=False
        )
        return ModelInputData(
            model_data.input, f"{model_data.instructions or ''}\n\n{context.background}".strip()
        )

    def _message(self, item: dict[str, Any]) -> Message:
        text, role = _text(item), item.get("role")
        if text is None or role not in ("user", "assistant", "system"):
            whole = json.dumps(item, ensure_ascii=False)
            kind = str(item.get("type", role))
            return {"sender_id": self.agent_id, "role": "tool", "content": whole, "metadata": {WHOLE: kind}}
        sender = self.user_id if role == "user" else self.agent_id
        return {"sender_id": sender, "role": role, "content": text}


def _item(message: Message) -> TResponseInputItem:
    if WHOLE in message["metadata"]:
        return cast("TResponseInputItem", json.loads(message["content"]))
    role = message["role"]
    return {"role": "user" if role == "tool" else role, "content": message["content"]}


def _text(item: dict[str, Any]) -> str | None:
    """Return the text of a message that holds nothing but text."""
    content = item.get("content")
    if isinstance(content, list) and all("text" in part for part in content):
        return "".join(part["text"] for part in content)
    return content if isinstance(content, str) else None
