"""Questions as messages: a bot hands over what it is asked before it asks for a context."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from schemas.messages import ChatIn, MessageIn

# A question comes so long after the last message.
AFTER = timedelta(minutes=5)


def asked_as_message(
    chat: ChatIn, messages: Sequence[MessageIn], question: str, at: datetime | None = None
) -> MessageIn:
    """Return a question as the message that puts it to the chat's bot, by somebody of the chat.

    In a group it mentions the bot. Who asks is the one with the most messages whom the question does not name. The
    time is by default `AFTER` the last message.
    """
    said = Counter((m.sender_id, m.sender_name) for m in messages if m.role == "user")
    by_frequency = [person for person, _ in said.most_common()]
    folded = question.casefold()
    asker = next((each for each in by_frequency if (each[1] or "").casefold() not in folded), by_frequency[0])
    bot = next((m.sender_name for m in messages if m.role == "assistant" and m.sender_name), "bot")
    return MessageIn(
        # a new one each time: what was deleted is not taken again
        external_id=f"question-{uuid4()}",
        sender_id=asker[0],
        sender_name=asker[1],
        content=f"@{bot} {question}" if chat.kind == "group" else question,
        sent_at=at or messages[-1].sent_at + AFTER,
    )
