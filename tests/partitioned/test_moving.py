"""The stories of chats that move, with messages in partitions."""

from tests.test_moving import *  # noqa: F403
