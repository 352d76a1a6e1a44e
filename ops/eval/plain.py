"""Plain global vector search, to compare with: one cosine over all messages of a chat, and nothing else."""

from collections.abc import Sequence
from operator import mul

from pipeline.clients.protocols import Embedder
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.messages import MessageIn


class PlainSearch:
    """What a bot has that embeds its messages and takes the nearest: no keywords, no sessions, no ranking."""

    def __init__(self, embedder: Embedder, messages: Sequence[MessageIn]) -> None:
        self._embedder = embedder
        self._messages = messages
        self._vectors = embedder.embed_documents([message.content for message in messages])

    def ranked(self, question: str) -> list[tuple[MessageIn, float]]:
        """All messages with their cosine, nearest first; of equal ones the later."""
        asked = self._embedder.embed_query(question)
        scored = [
            (message, sum(map(mul, asked, vector)))
            for message, vector in zip(self._messages, self._vectors, strict=True)
        ]
        return sorted(scored, key=lambda hit: (hit[1], hit[0].sent_at), reverse=True)


def context(ranked: Sequence[tuple[MessageIn, float]], budget: int) -> str:
    """The nearest messages with their speakers, a line each, as long as they fit into `budget` tokens."""
    lines: list[str] = []
    left = budget
    for message, _ in ranked:
        line = f"{message.sender_name}: {one_line(message.content)}"
        left -= estimate_line(line)
        if left < 0:
            break
        lines.append(line)
    return "\n".join(lines)
