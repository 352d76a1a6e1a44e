"""Partitioned messages are no difference from what the migrations make."""

from tests.store.test_catalog import test_what_an_operator_adds_is_nobodys_business

__all__ = ["test_what_an_operator_adds_is_nobodys_business"]
