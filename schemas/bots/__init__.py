"""What bots hand over and by which keys: API keys, sources of events, receipts."""
