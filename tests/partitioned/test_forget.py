"""Messages in partitions are forgotten like any others."""

from tests.erasure.test_forget import (  # noqa: F401 - stories, and the fixtures that they use
    remembered,
    template,
    test_nothing_of_a_forgotten_user_stands_in_any_column_of_any_table,
)
