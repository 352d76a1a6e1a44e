"""Show what a chat was about over time."""

from itertools import groupby

from pipeline.operations import lookup
from pipeline.store.chats import topics as store
from pipeline.store.connections.database import Database
from schemas.memory.topics import ChatTopics, CountedTopic, TopicFilter, TopicPeriod


def chat_topics(database: Database, tenant_id: str, chat_id: str, filters: TopicFilter) -> ChatTopics:
    """Count the topics of a chat's summaries by week or month. Raises `NotFound`, `DatabaseUnavailable`."""
    with database.tenant(tenant_id) as connection:
        chat = lookup.find_chat(connection, chat_id)
        rows = store.by_period(
            connection,
            chat.chat_id,
            by=filters.by,
            zone=chat.time_zone,
            periods=filters.periods,
            limit=filters.limit,
        )
    periods = [
        TopicPeriod(
            begins=begins,
            topics=[CountedTopic.model_validate(row, from_attributes=True) for row in of_period],
        )
        for begins, of_period in groupby(rows, key=lambda row: row.begins)
    ]
    return ChatTopics(chat_id=chat.chat_id, by=filters.by, time_zone=chat.time_zone, periods=periods)
