"""SQL of messages: accepting, reading and changing them."""
