"""A slow line to Redis: `python -m benchmarks.cluster.slow_line PORT DELAY_MS`.

Every answer comes so much later. Where nothing else takes time, a wait divided by the delay is
the number of answers that were waited for, one after another.
"""

from __future__ import annotations

import asyncio
import sys


class SlowLine:
    """Passes everything on, and answers late."""

    def __init__(self, port: int, delay_seconds: float) -> None:
        self._port = port
        self._delay_seconds = delay_seconds

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        print(f"Slow line to Redis at redis://127.0.0.1:{port}", flush=True)
        await server.serve_forever()

    async def _connected(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        from_redis, to_redis = await asyncio.open_connection("127.0.0.1", self._port)
        answering = asyncio.create_task(self._answer(from_redis, to_client))
        try:
            while data := await from_client.read(65536):
                to_redis.write(data)
        finally:
            answering.cancel()
            to_redis.close()
            to_client.close()

    async def _answer(
        self, from_redis: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await from_redis.read(65536):
            loop.call_later(self._delay_seconds, to_client.write, data)


if __name__ == "__main__":
    asyncio.run(SlowLine(int(sys.argv[1]), int(sys.argv[2]) / 1000).serve())
