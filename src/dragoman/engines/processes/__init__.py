"""Python code that holds the interpreter's lock for long, in processes of its own."""

from dragoman.engines.processes.pool import ProcessPool

__all__ = ["ProcessPool"]
