from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from tests.integration.gateway.sockets import dialled, run, serving
from tests.unit.gateway.scripted import LIMITS, TestKeys, scripted_endpoint

from dragoman.clock import SystemClock
from dragoman.live.gateway import ConnectionClosed
from dragoman.live.protocol import ClientHeartbeat, Utterance

SECRET = "SECRET-4f1d2c"
SPOKEN = "what the speaker said"
UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


class Everything(logging.Handler):
    """Keeps whatever any logger of the process says, written out in full."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.text = io.StringIO()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        self.text.write(f"{record.name} {logging.Formatter().format(record)} {record.__dict__}\n")


@pytest.fixture
def everything() -> Iterator[Everything]:
    handler = Everything()
    loggers = [logging.getLogger(name) for name in ("", "websockets", *UVICORN)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(1)
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("log_level", ["info", "debug", "trace"])
def test_neither_keys_nor_what_is_said_appear_in_any_log(
    everything: Everything, log_level: str
) -> None:
    async def main() -> None:
        keys = TestKeys(required=True)
        endpoint = scripted_endpoint([], SystemClock(), keys=keys)
        quiet = logging.getLogger("tests.client")
        quiet.propagate = False  # the client's own log is the client's business
        async with serving(endpoint, log_level=log_level) as url:
            by_query = f"{url}?token={SECRET}&x=1"
            for address, headers in (
                (by_query, {}),
                (url, {"Authorization": f"Bearer {SECRET}"}),
                (f"{url}/nowhere?token={SECRET}", {}),
            ):
                with pytest.raises(Exception, match=r"4401|403"):
                    async with dialled(address, headers=headers, logger=quiet) as client:
                        await client.receive()
            keys.required = False
            async with dialled(url, logger=quiet) as client:
                await client.send(ClientHeartbeat(last_delivery_seq=1))
                await client.send(Utterance(utterance_index=0, text=SPOKEN))
                await client.send(Utterance(utterance_index=0, text="fail"))
                for _ in range(2):
                    await client.receive()
                await client.send_frame(SPOKEN * LIMITS.max_frame_bytes)
                with pytest.raises(ConnectionClosed, match="1009"):
                    await client.receive()
            logging.getLogger("uvicorn.error").warning('"GET /ws?token=%s HTTP/1.1"', SECRET)

    run(main, "asyncio")
    written = everything.text.getvalue()
    assert "handler_failed" in written  # the trap is set: what is logged is caught
    assert '"GET /ws HTTP/1.1"' in written
    assert SECRET not in written
    assert SPOKEN not in written
