"""What platforms send, as they send it: events applied in order, and the sources that prove who sends them."""
