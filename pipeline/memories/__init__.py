"""Durable statements and documents."""
