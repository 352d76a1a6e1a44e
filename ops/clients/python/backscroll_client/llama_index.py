"""LlamaIndex: a block of long-term memory, which keeps what the short-term memory lets go."""

from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.memory import BaseMemoryBlock
from pydantic import Field, PrivateAttr

from backscroll_client import parts
from backscroll_client.client import AsyncBackscroll
from backscroll_client.errors import NotFound
from backscroll_client.values import Message, Role

ROLES: dict[str, Role] = {
    "user": "user",
    **dict.fromkeys(("assistant", "chatbot", "model"), cast("Role", "assistant")),
    **dict.fromkeys(("tool", "function"), cast("Role", "tool")),
}
LEAST_TOKENS = 50


class BackscrollMemoryBlock(BaseMemoryBlock[str]):
    """What a chat's memory knows of the newest question, in at most `budget_tokens`."""

    name: str = "backscroll"
    priority: int = 1
    memory: AsyncBackscroll = Field(exclude=True)
    chat_id: str
    user_id: str
    budget_tokens: int = 1000
    _question: str = PrivateAttr("")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = [said for message in messages or [] if message.role == "user" and (said := _words(message))]
        self._question = said[-1] if said else ""
        return await self._known(self.budget_tokens)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        said = [self._message(message) for message in messages if _words(message)]
        if said:
            await self.memory.add(self.chat_id, *said)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Ask again for less."""
        return await self._known(self.budget_tokens - tokens_to_truncate) or None

    async def _known(self, budget: int) -> str:
        if not self._question or budget < LEAST_TOKENS:
            return ""
        try:
            context = await self.memory.context(
                self.chat_id,
                self._question,
                user_id=self.user_id,
                budget_tokens=budget,
                include_history=False,
            )
        except NotFound:
            # nothing was put yet
            return ""
        return context.background

    def _message(self, message: ChatMessage) -> Message:
        role = ROLES.get(message.role.value, "system")
        sender = self.user_id if role == "user" else f"llama-index:{role}"
        return {"sender_id": sender, "role": role, "content": _words(message)}


def _words(message: ChatMessage) -> str:
    blocks = ({"type": block.block_type, "text": getattr(block, "text", None)} for block in message.blocks)
    return parts.words([*blocks])
