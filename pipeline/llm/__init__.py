"""Calls to language models: kept, counted, limited and paid for in one place."""
