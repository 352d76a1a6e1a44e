"""What the clock and the operator run over everything."""
