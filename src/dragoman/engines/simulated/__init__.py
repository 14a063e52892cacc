"""A seeded engine that pretends to be models."""
