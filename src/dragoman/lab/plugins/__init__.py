"""What targets and evaluators share, built in or added by packages.

How their kinds are found by name, what they may reach, and how functions of users are called.
"""

from dragoman.lab.plugins.columns import require_column
from dragoman.lab.plugins.context import Answers, Context, OwnFleet, fleet_of_folder
from dragoman.lab.plugins.functions import PythonFunction, find_function, identity_of
from dragoman.lab.plugins.registry import PluginRegistry, settings_of
from dragoman.lab.plugins.threads import Threads

__all__ = [
    "Answers",
    "Context",
    "OwnFleet",
    "PluginRegistry",
    "PythonFunction",
    "Threads",
    "find_function",
    "fleet_of_folder",
    "identity_of",
    "require_column",
    "settings_of",
]
