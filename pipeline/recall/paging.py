"""Page through a session, starting around the messages already shown and repeating none."""

from pipeline.recall.ask.request import find_chat
from pipeline.recall.pack.hits import as_line
from pipeline.store.connections.database import Database
from pipeline.store.search import text_search
from pipeline.store.sessions import sessions
from schemas.errors import NotFound
from schemas.search import MoreQuery, MoreResult
from schemas.settings import Settings


def more(database: Database, tenant_id: str, query: MoreQuery, *, settings: Settings) -> MoreResult:
    """Fetch up to `query.limit` messages of a session, nearest to the shown ones, in order of time.

    `next` of the answer is the query of the next page, to be sent as it is. Without `shown` the pages start at the
    session's beginning. Raises `NotFound` for an unknown chat or session, or if memory is off there,
    `DatabaseUnavailable`.
    """
    with database.tenant(tenant_id) as connection:
        chat = find_chat(connection, query.chat_id)
        row = sessions.find(connection, query.session_id)
        if row is None or row.chat_id != chat.chat_id or not chat.memory:
            raise NotFound(f"there is no session {query.session_id} in {query.chat_id}")
        page, unseen = text_search.not_shown(
            connection,
            chat.chat_id,
            row.session_key,
            row.started_at,
            row.ended_at,
            query.shown,
            query.limit,
        )
    shown = [*query.shown, *(message.id for message in page)]
    remaining = unseen - len(page)
    return MoreResult(
        session_id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text if settings.session_memory_enabled else None,
        messages=[as_line(message) for message in page],
        remaining=remaining,
        next=query.model_copy(update={"session_id": row.id, "shown": shown}) if remaining else None,
    )
