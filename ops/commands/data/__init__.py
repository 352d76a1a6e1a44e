"""Commands that read and change what is remembered."""
