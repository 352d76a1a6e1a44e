"""The stories of tests/erasure/test_pruned.py, on partitioned messages."""

from tests.erasure.test_pruned import *  # noqa: F403 - its tests and fixtures
