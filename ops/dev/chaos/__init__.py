"""Faults in a deployment of its own, and the verdict on what it stored."""
