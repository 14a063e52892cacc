"""Simulations measured: how fast they are, what they say of strategies, and how true they are."""
