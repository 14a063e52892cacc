"""Measurements of Dragoman on the machine at hand: `python -m benchmarks [name ...]`."""
