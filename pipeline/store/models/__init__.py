"""SQL of calls to language models: answers, costs, limits."""
