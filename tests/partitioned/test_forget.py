"""The stories of tests/test_forget.py, on partitioned messages."""

from tests.test_forget import *  # noqa: F403 - its tests and fixtures
