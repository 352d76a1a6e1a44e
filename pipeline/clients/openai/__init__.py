"""OpenAI's protocol: language models, embeddings, and the limits of endpoints."""
