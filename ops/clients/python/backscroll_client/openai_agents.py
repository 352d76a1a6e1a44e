"""OpenAI Agents: a chat as a session, and its memory before each call of the model."""

import json
from hashlib import sha256
from typing import Any, cast

from agents import SessionSettings, TResponseInputItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.run import CallModelData, ModelInputData

from backscroll_client import parts
from backscroll_client.client import AsyncBackscroll
from backscroll_client.errors import Unavailable
from backscroll_client.values import Message, Role

MAX_ITEMS = 1000
WHOLE = "openai"
"""The metadata of what is more than words: the item as JSON, beside its words or, of a tool, as the content."""
PICTURE = "image_generation_call"
ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


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
        if not (question := next(filter(None, asked), None)):
            return model_data
        context = await self.memory.context(
            self.session_id, question, user_id=self.user_id, include_history=False
        )
        return ModelInputData(
            model_data.input, f"{model_data.instructions or ''}\n\n{context.background}".strip()
        )

    def _message(self, item: dict[str, Any]) -> Message:
        role = _role(item)
        said = _text(item)
        value = parts.without_data(item, "input_text" if role == "user" else "output_text")
        if role is None or not (said or not item.get("content")):
            content = json.dumps(value, ensure_ascii=False)
            kind = str(item.get("type", role))
            return {"sender_id": self.agent_id, "role": "tool", "content": content, "metadata": {WHOLE: kind}}
        sender = self.user_id if role == "user" else self.agent_id
        message: Message = {"sender_id": sender, "role": role, "content": said}
        if (identity := item.get("id")) and identity != FAKE_RESPONSES_ID:
            # ids of other models than OpenAI's may be alike
            written = json.dumps([identity, role, said], sort_keys=True).encode()
            message["external_id"] = f"item-{sha256(written).hexdigest()}"
        if item.get("type") == PICTURE:
            return message
        if not _is_plain(item) and (written_whole := parts.whole(value, item.get("content"))):
            message["metadata"] = {WHOLE: written_whole}
        return message


def _item(message: Message) -> TResponseInputItem:
    kept = message["metadata"].get(WHOLE)
    if kept is not None:
        item = json.loads(message["content"] if message["role"] == "tool" else kept)
        # unless its words were edited since
        if message["role"] == "tool" or parts.are_of(message["content"], item.get("content")):
            return cast("TResponseInputItem", item)
    role = message["role"]
    return {"role": "user" if role == "tool" else role, "content": message["content"]}


def _role(item: dict[str, Any]) -> Role | None:
    if item.get("type") == PICTURE:
        return "assistant"
    return ROLES.get(str(item.get("role")))


def _text(item: dict[str, Any]) -> str:
    return parts.words([item] if item.get("type") == PICTURE else item.get("content") or "")


def _is_plain(item: dict[str, Any]) -> bool:
    """Tell whether a message holds nothing but text."""
    content = item.get("content")
    return not isinstance(content, list) or all(isinstance(part, dict) and "text" in part for part in content)
