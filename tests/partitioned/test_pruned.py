"""Whose a session is stays known when retention has removed its messages from their partition."""

from tests.erasure.test_pruned import (  # noqa: F401 - stories, and the fixtures that they use
    talk,
    test_nothing_is_left_of_who_is_forgotten_after_all_their_messages_were_pruned,
)
