"""The stories of tests/erasure/test_forget.py, on partitioned messages."""

from tests.erasure.test_forget import *  # noqa: F403 - its tests and fixtures
