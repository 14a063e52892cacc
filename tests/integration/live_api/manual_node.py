"""A node that does by hand what the test tells it, over a real socket."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
from tests.integration.serve.server_process import PATIENCE_SECONDS, ServerProcess
from websockets.sync.client import connect
from websockets.typing import Subprotocol

Body = dict[str, Any]

_numbers = count(1)


def new_pair() -> tuple[str, str]:
    """Two languages that no other test of this process speaks, and so a pool of one's own."""
    number = next(_numbers)
    return f"en-t{number}", f"es-t{number}"


def registration(node_id: str, languages: tuple[str, ...], **fields: Any) -> Body:
    """What a node says first."""
    return {
        "type": "node_register",
        "node_id": node_id,
        "version": "1",
        "schema_version": "2.0",
        "platform": "linux",
        "hardware": {"cpu_cores": 4, "memory_gb": 8},
        "services": [
            {"service_id": kind, "type": kind, "device": "cpu", "status": "running"}
            for kind in ("asr", "nmt", "tts")
        ],
        "languages": {
            "asr_langs": languages,
            "semantic_langs": [],
            "nmt_langs": languages,
            "tts_langs": languages,
        },
        **fields,
    }


class Socket:
    """A node's socket, without manners of its own."""

    def __init__(
        self, server: ServerProcess, key: str | None = None, *, binary: bool = False
    ) -> None:
        """`binary` speaks MessagePack instead of JSON."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = server.url.replace("http", "ws") + "/ws/node"
        self._binary = binary
        self._open = ExitStack()
        self.socket = self._open.enter_context(
            connect(
                url,
                additional_headers=headers,
                compression=None,
                max_size=None,
                subprotocols=[Subprotocol("dragoman.msgpack.v1")] if binary else None,
            )
        )

    def say(self, **message: Any) -> None:
        self.socket.send(msgspec.msgpack.encode(message) if self._binary else json.dumps(message))

    def hear(self) -> Body:
        """The next message, whatever it is."""
        frame = self.socket.recv(timeout=PATIENCE_SECONDS)
        found: Body = (
            msgspec.msgpack.decode(frame)  # type: ignore[arg-type]
            if self._binary
            else json.loads(frame)
        )
        return found

    def wait_for(self, kind: str, **fields: object) -> Body:
        """The next message of a type, with these fields; others are passed over."""
        while True:
            message = self.hear()
            if message["type"] == kind and fields.items() <= message.items():
                return message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()


class ManualNode(Socket):
    """A node that is ready for jobs, and answers each one as the test wants."""

    def __init__(
        self,
        server: ServerProcess,
        languages: tuple[str, ...],
        *,
        slots: int = 1,
        node_id: str | None = None,
        key: str | None = None,
        binary: bool = False,
        by_stage: Body | None = None,
        **fields: Any,
    ) -> None:
        """Every stage knows the languages, unless by_stage says otherwise."""
        super().__init__(server, key, binary=binary)
        self.node_id = node_id or f"manual-{next(_numbers)}"
        said = registration(self.node_id, languages, max_concurrent_jobs=slots, **fields)
        if by_stage is not None:
            said["languages"] = by_stage
        self.say(**said)
        self.ack = self.wait_for("node_register_ack")
        self.beat()
        if self.ack["status"] == "registering":
            self.wait_for("node_status", status="ready")

    def beat(self, *running: Body, **fields: Any) -> None:
        self.say(
            type="node_heartbeat",
            resource_usage={"cpu_percent": 1, "mem_percent": 1},
            running=[attempt_of(job) for job in running],
            **fields,
        )

    def take(self) -> Body:
        """The next job."""
        return self.wait_for("job_assign")

    def accept(self, job: Body) -> None:
        self.say(type="job_ack", **attempt_of(job))

    def start(self, job: Body) -> None:
        self.say(type="job_started", **attempt_of(job))

    def succeed(self, job: Body, **result: Any) -> None:
        self.say(type="job_result", success=True, **attempt_of(job), **result)

    def fail(self, job: Body, code: str, *, retryable: bool = True) -> None:
        error = {"code": code, "message": "on purpose", "retryable": retryable}
        self.say(type="job_result", success=False, error=error, **attempt_of(job))


def attempt_of(job: Body) -> Body:
    return {"job_id": job["job_id"], "attempt_id": job["attempt_id"]}


class Caller:
    """A caller of the HTTP API."""

    def __init__(self, server: ServerProcess, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(
            base_url=server.url + "/api/v1", headers=headers, timeout=PATIENCE_SECONDS
        )
        self._threads = ThreadPoolExecutor(max_workers=8)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._http.get(path, params=query)

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self._http.post(path, json=body)

    def put(self, path: str, body: Any = None) -> httpx.Response:
        return self._http.put(path, json=body)

    def delete(self, path: str, **query: Any) -> httpx.Response:
        return self._http.delete(path, params=query)

    def ask(self, pair: tuple[str, str], **fields: Any) -> httpx.Response:
        """Post a job: a text for the pair, and whatever else is given."""
        return self.post("/jobs", job_body(pair, **fields))

    def begin_to_ask(self, pair: tuple[str, str], **fields: Any) -> Future[httpx.Response]:
        """Post a job without waiting for the answer."""
        return self._threads.submit(self.ask, pair, **fields)

    def job(self, job_id: str) -> Body:
        answer = self.get(f"/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: Body = answer.json()
        return found

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._http.close()


def job_body(pair: tuple[str, str], **fields: Any) -> Body:
    body: Body = {"src_lang": pair[0], "tgt_lang": pair[1], "text": "hello", **fields}
    return {name: value for name, value in body.items() if value is not None}


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]
