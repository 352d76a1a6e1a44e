"""What is made of messages in partitions is what is made of any others."""

from tests.test_pipeline import (  # noqa: F401 - stories, and the fixtures that they use
    test_after_the_gap_changed_sessions_are_cut_again_and_ids_kept,
    test_every_message_and_summary_gets_one_vector_and_equal_text_is_embedded_once,
    test_old_messages_go_with_their_vectors_and_sessions_keep_what_they_say,
    two_sessions,
)
