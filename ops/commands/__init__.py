"""The commands of `backscroll`, one module for each."""
