"""The stories of tests/test_changes.py, on partitioned messages."""

from tests.test_changes import *  # noqa: F403 - its tests and fixtures
