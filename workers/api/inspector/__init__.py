"""The inspector: pages that show an operator the stored data and explain contexts."""
