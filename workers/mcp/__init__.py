"""Tools for language models, over the Model Context Protocol: thin clients of the HTTP API's routes."""
