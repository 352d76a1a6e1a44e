"""Chats whose messages are in partitions move like any others."""

from tests.ingest.test_chat_moves import (  # noqa: F401 - stories, and the fixtures that they use
    remembered,
    test_a_renamed_chat_keeps_everything_under_its_new_id,
    test_joined_sessions_are_summarized_again_and_the_others_keep_their_summaries,
)
