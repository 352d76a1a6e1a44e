"""SQL of tenants, chats and their members."""
