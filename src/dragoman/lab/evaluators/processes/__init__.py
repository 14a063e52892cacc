"""Processes for evaluators that compute for long."""

from dragoman.lab.evaluators.processes.names import importable_name
from dragoman.lab.evaluators.processes.pool import FunctionProcessPool

__all__ = ["FunctionProcessPool", "importable_name"]
