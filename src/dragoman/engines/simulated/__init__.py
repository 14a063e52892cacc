"""A seeded engine that simulates models."""
