"""The console: the pages that operators, speakers and evaluation engineers open in a browser.

The pages are built from ``web/`` (TypeScript) into the folder ``built`` beside this file. They use
only the public API.
"""

from dragoman.api.console.built_files import read_built
from dragoman.api.console.pages import console_router

__all__ = ["console_router", "read_built"]
