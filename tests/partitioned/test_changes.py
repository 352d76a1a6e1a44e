"""Messages in partitions are edited and deleted like any others."""

from tests.erasure.test_edits import (  # noqa: F401 - stories, and the fixtures that they use
    remembered,
    test_a_deleted_message_is_gone_with_all_that_was_made_of_it,
)
