"""Experiments: how many items a second, in how much memory, and at whose cost."""
