"""A real server that refuses in bursts: every item is answered, and hardly any is refused."""

from __future__ import annotations

import asyncio
import json
import math
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from dragoman.clock import SystemClock
from dragoman.lab.evaluators import Score
from dragoman.lab.failures import Failure
from dragoman.lab.model import Item, ItemId, JsonValue, TargetSpec
from dragoman.lab.plugins import Context
from dragoman.lab.targets import Output, open_target
from dragoman.lab.worker.execution import Bench, ItemOutcome, Reusable, WorkLimits, carry_out

QUOTA = 10
WINDOW_SECONDS = 1.0
ITEMS = 50
CONCURRENCY = 40
CALL_SECONDS = 0.02


class PatientServer(ThreadingHTTPServer):
    """Refuses no connection while it is busy."""

    daemon_threads = True
    request_queue_size = 128


class WindowedServer:
    """Answers so many requests in each window, and the others with 429 and Retry-After."""

    def __init__(self) -> None:
        self.refused = 0
        self.at_once: list[int] = []
        """How many requests were worked on at once, at the beginning of each."""
        self._running = 0
        self._window = -1
        self._used = 0
        self._lock = Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                wait_seconds = server._wait_seconds()
                if wait_seconds > 0:
                    self._send(429, b"{}", wait_seconds)
                    return
                time.sleep(CALL_SECONDS)
                self._send(200, json.dumps({"said": json.loads(body)["text"]}).encode())
                with server._lock:
                    server._running -= 1

            def _send(self, status: int, content: bytes, retry_after: float | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                if retry_after is not None:
                    self.send_header("Retry-After", str(math.ceil(retry_after)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._http = PatientServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/"

    def _wait_seconds(self) -> float:
        now = time.monotonic()
        with self._lock:
            window = int(now / WINDOW_SECONDS)
            if window != self._window:
                self._window, self._used = window, 0
            if self._used >= QUOTA:
                self.refused += 1
                return (window + 1) * WINDOW_SECONDS - now
            self._used += 1
            self._running += 1
            self.at_once.append(self._running)
            return 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class NoJournal:
    """Keeps nothing."""

    async def target_done(self, turn_no: int, result: Output | Failure) -> None:
        pass

    async def evaluator_done(self, turn_no: int, name: str, result: Score | Failure) -> None:
        pass

    async def try_over(self, outcome: ItemOutcome, *, last: bool) -> None:
        pass


def carried_out(url: str) -> list[ItemOutcome]:
    """Every item through the server."""

    async def main() -> list[ItemOutcome]:
        settings: dict[str, JsonValue] = {
            "url": url,
            "body": {"text": "{{text}}"},
            "output": "$.said",
        }
        target = open_target(TargetSpec("http", settings), Context())
        bench = Bench(
            target, (), WorkLimits(CONCURRENCY, retries=0), clock=SystemClock(), random=Random(1)
        )
        items = [Item(ItemId(f"i-{n}"), ({"text": f"text {n}"},)) for n in range(ITEMS)]
        try:
            calls = (carry_out(item, Reusable(), NoJournal(), bench) for item in items)
            return await asyncio.gather(*calls)
        finally:
            await target.close()

    return asyncio.run(main())


def test_a_server_that_refuses_in_bursts_fails_no_item_and_is_not_stormed() -> None:
    with WindowedServer() as server:
        outcomes = carried_out(server.url)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    outputs = [outcome.turns[0].output for outcome in outcomes]
    assert [output.answer for output in outputs if output] == [f"text {n}" for n in range(ITEMS)]
    assert len(server.at_once) == ITEMS, "nothing is asked for twice"
    # No more often than callers that only wait as they are told: about a hundred times.
    assert 0 < server.refused <= 2 * ITEMS + CONCURRENCY
