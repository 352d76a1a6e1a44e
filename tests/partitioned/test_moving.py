"""The stories of chats that move, with messages in partitions."""

from tests.ingest.test_chat_moves import *  # noqa: F403
