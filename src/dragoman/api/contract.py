"""The OpenAPI document of a whole server, and the messages of its sockets, without running one.

``python -m dragoman.api.contract`` prints it; the console's types are generated from it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from typing import Any

from dragoman.api import all_parts, create_app, open_services
from dragoman.api.lab import ExperimentMessage, ListMessage
from dragoman.api.live.console import ConsoleMessage, Watch
from dragoman.api.live.documents import schema_of
from dragoman.clock import SystemClock
from dragoman.randomness import Randomness
from dragoman.settings import load_settings


async def contract() -> dict[str, Any]:
    """What a server with every part answers at ``/openapi.json``, and what its sockets send."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(None, {"server": {"data_dir": folder}}, environ={}).settings
        async with open_services(settings, SystemClock(), Randomness()) as services:
            app = create_app(services, routers=all_parts(services).routers)
            found: dict[str, Any] = app.openapi()
    schemas = found["components"]["schemas"]
    # Each kind is spelt out: there is no schema for a discriminator to refer to.
    schemas["ConsoleMessage"] = {"anyOf": schema_of(ConsoleMessage)["anyOf"]}
    schemas["ConsoleWatch"] = schema_of(Watch)
    schemas["ExperimentMessage"] = {"anyOf": schema_of(ExperimentMessage)["anyOf"]}
    schemas["ExperimentListMessage"] = schema_of(ListMessage)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(contract()), indent=1, sort_keys=True) + "\n")
