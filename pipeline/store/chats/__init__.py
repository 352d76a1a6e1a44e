"""SQL of tenants, chats and who is in them."""
