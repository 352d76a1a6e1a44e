"""Backscroll for Hermes Agent: a MemoryProvider, and the gateway's hooks."""

from backscroll_client.hermes import register as register
