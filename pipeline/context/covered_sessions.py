"""Find the sessions that a context shows whole, whose summaries would repeat what stands there. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping

from pipeline.retrieval.found import SessionCard
from pipeline.text import truncate
from schemas.context import ContextItem
from schemas.sessions import Message


def shown_whole(
    cards: Iterable[SessionCard],
    recent: Iterable[Message],
    history: Collection[ContextItem],
    exchanges: Collection[ContextItem],
    session_of: Mapping[str, int],
    is_question: Callable[[str], bool],
) -> set[int]:
    """The sessions of which every message stands in the context.

    `recent` are the chat's newest messages, of which `history` shows some; `exchanges` are other messages, whose
    sessions `session_of` tells by their ids. Messages without text, and the question itself, need not be shown.
    """
    lines = {item.id: item.text for item in history}
    stands = [
        message
        for message in recent
        if not message.content.strip()
        or is_question(message.content)
        # the newest may be cut
        or lines.get(str(message.id), "").endswith(truncate.one_line(message.content))
    ]
    elsewhere = [(item.id, session_of.get(item.id)) for item in exchanges]
    return {
        card.id
        for card in cards
        if len(
            {str(m.id) for m in stands if _is_of(card, m)}
            | {identity for identity, session in elsewhere if session == card.id}
        )
        >= card.message_count
        > 0
    }


def _is_of(card: SessionCard, message: Message) -> bool:
    return message.session_key == card.session_key and card.started_at <= message.sent_at <= card.ended_at
