"""What commands print and ask with."""
