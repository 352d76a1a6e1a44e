"""Tell more of a session that an earlier answer showed: what was said around that, page by page, nothing twice."""

from pipeline.retrieval import prepare
from pipeline.retrieval.session_ranking import as_line
from pipeline.store import chats, sessions, text_search
from pipeline.store.database import Database
from schemas.errors import NotFound
from schemas.search import MoreQuery, MoreResult
from schemas.settings import Settings


def more(database: Database, tenant_id: str, query: MoreQuery, *, settings: Settings) -> MoreResult:
    """At most `query.limit` messages of a session, the nearest to those shown first; in order of time.

    `next` of the answer is the query of the next page, to be sent as it is. Without `shown` the session is told
    from its beginning. Raises `NotFound` for a chat or a session that is not there, or that memory is off for,
    `DatabaseUnavailable`.

        page = more(
            database,
            "default",
            MoreQuery(chat_id="telegram:-100420", session_id=30, shown=[812, 815]),
            settings=settings,
        )
        while page.next:
            page = more(database, "default", page.next, settings=settings)
    """
    with database.tenant(tenant_id) as connection:
        chat = chats.followed(connection, query.chat_id)
        if chat is None:
            raise NotFound(f"there is no chat {query.chat_id}: see `backscroll chats`")
        row = sessions.find(connection, query.session_id)
        if row is None or row.chat_id != chat.chat_id or not prepare.remembers(chat, settings):
            raise NotFound(f"there is no session {query.session_id} in {query.chat_id}")
        found, there = text_search.not_shown(
            connection,
            chat.chat_id,
            row.session_key,
            row.started_at,
            row.ended_at,
            query.shown,
            query.limit,
        )
    shown = [*query.shown, *(message.id for message in found)]
    remaining = there - len(found)
    return MoreResult(
        session_id=row.id,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary_text,
        messages=[as_line(message) for message in found],
        remaining=remaining,
        next=query.model_copy(update={"session_id": row.id, "shown": shown}) if remaining else None,
    )
