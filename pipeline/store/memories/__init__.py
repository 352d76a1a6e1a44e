"""SQL of memories, documents and entities."""
