"""The door: messages in, contexts out, over HTTP."""
