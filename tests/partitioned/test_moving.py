"""Chats whose messages are in partitions move like any others."""

from tests.ingest.test_chat_moves import (  # noqa: F401 - stories, and the fixtures that they use
    remembered,
    test_a_renamed_chat_keeps_everything_under_its_new_id,
)
