"""What is made of messages in partitions is what is made of any others."""

from tests.test_pipeline import (  # noqa: F401 - stories, and the fixtures that they use
    test_old_messages_go_with_their_vectors_and_sessions_keep_what_they_say,
    two_sessions,
)
