"""The stories of tests/erasure/test_edits.py, on partitioned messages."""

from tests.erasure.test_edits import *  # noqa: F403 - its tests and fixtures
