"""Whose a session is stays known when retention has removed its messages from their partition."""

from tests.erasure.test_pruned import (  # noqa: F401 - stories, and the fixtures that they use
    talk,
    test_nothing_is_left_of_who_is_forgotten_after_all_their_messages_were_pruned,
    test_sessions_that_are_joined_or_moved_after_they_were_pruned_stay_whose_they_were,
)
