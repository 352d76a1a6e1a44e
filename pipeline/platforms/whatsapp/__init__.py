"""WhatsApp's exports, webhooks of its Cloud API, events of Baileys, and what they share."""
