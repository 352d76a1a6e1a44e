"""The inspector: pages that show an operator what is stored and why a context was what it was."""
