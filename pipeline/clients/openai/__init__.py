"""OpenAI's protocol: language models, embeddings, and what an endpoint cannot do."""
