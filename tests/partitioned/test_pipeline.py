"""The stories of tests/test_pipeline.py, on partitioned messages."""

from tests.test_pipeline import *  # noqa: F403 - its tests and fixtures
