"""An OpenAI-compatible server on a loopback port, which behaves as the model's name asks it to.

`echo` answers with the last message. Other names fail, wait, stream or answer nonsense; a judge's
model reads the texts it is given and answers by simple rules, so that tests know what it must say.
"""

from __future__ import annotations

import io
import json
import re
import wave
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Asked(NamedTuple):
    """What the server was asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: str = ""

    @property
    def prompt(self) -> str:
        """The last message, or the prompt."""
        if "messages" in self.body:
            return str(self.body["messages"][-1]["content"])
        return str(self.body.get("prompt") or self.body.get("input") or "")


class OpenAiServer:
    """Listens until it is left; `over` lets requests go that hang."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.over = Event()
        self.hanging = Event()
        """Set when a request hangs."""
        self.counts: Counter[str] = Counter()
        self._lock = Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                path, _, query = self.path.partition("?")
                asked = Asked(path, headers, _body(headers, content), query)
                with suppress(OSError):
                    server._answer(self, asked)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self.host = f"127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        model = str(asked.body.get("model", ""))
        with self._lock:
            self.asked.append(asked)
            self.counts[model] += 1
            time_no = self.counts[model]
        behave = BEHAVIOURS.get(model.split("/")[0])
        if behave is None:
            send_json(handler, 404, {"error": {"message": f"The model `{model}` does not exist"}})
        else:
            behave(handler, self, asked, time_no)


Behaviour = Callable[[BaseHTTPRequestHandler, OpenAiServer, Asked, int], None]


def send(handler: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def send_json(handler: BaseHTTPRequestHandler, status: int, answer: Any, **headers: str) -> None:
    send(handler, status, json.dumps(answer).encode(), Content_Type="application/json", **headers)


def say(handler: BaseHTTPRequestHandler, asked: Asked, text: str | None) -> None:
    """Answer with a text, in the form of the path."""
    if asked.path.endswith("/chat/completions"):
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
    elif asked.path.endswith("/completions"):
        choice = {"text": text}
    else:
        send_json(handler, 200, {"text": text, "usage": {"input_tokens": 7, "output_tokens": 3}})
        return
    choices = [{"index": 0, "finish_reason": "stop", **choice}]
    send_json(handler, 200, {"choices": choices, "usage": USAGE})


def _echo(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    if asked.path.endswith("/audio/speech"):
        send(handler, 200, b"RIFF" + asked.prompt.encode(), Content_Type="audio/mpeg")
    elif asked.path.startswith("/v1/audio/"):
        say(handler, asked, f"heard {asked.body['file'].decode()}")
    elif asked.body.get("stream"):
        _stream(handler, asked, [*asked.prompt])
    else:
        say(handler, asked, asked.prompt)


def _begin_stream(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()


def _send_event(handler: BaseHTTPRequestHandler, document: Any) -> None:
    handler.wfile.write(f"data: {json.dumps(document)}\n\n".encode())
    handler.wfile.flush()


def _delta(asked: Asked, text: str | None, reason: str | None = None) -> Any:
    chat = asked.path.endswith("/chat/completions")
    part = {"delta": {"content": text} if text else {}} if chat else {"text": text or ""}
    return {"choices": [{"index": 0, "finish_reason": reason, **part}]}


def _stream(handler: BaseHTTPRequestHandler, asked: Asked, texts: list[str]) -> None:
    _begin_stream(handler)
    handler.wfile.write(b": a comment\n\n")
    _send_event(handler, _delta(asked, None))
    for text in texts:
        _send_event(handler, _delta(asked, text))
    _send_event(handler, _delta(asked, None, "stop"))
    _send_event(handler, {"choices": [], "usage": USAGE})
    handler.wfile.write(b"data: [DONE]\n\n")


def _broken_stream(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    _begin_stream(handler)
    _send_event(handler, _delta(asked, "half an ans"))


def _failing_stream(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    _begin_stream(handler)
    _send_event(handler, _delta(asked, "half"))
    _send_event(handler, {"error": {"message": "the engine died"}})


def _malformed_stream(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    _begin_stream(handler)
    handler.wfile.write(b"data: {broken\n\n")


def _endless_event(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    _begin_stream(handler)
    handler.wfile.write(b"data: ")
    while not server.over.is_set():
        handler.wfile.write(b"x" * 100_000)


def _late_stream(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """The first text at once; the rest when the test says so."""
    _begin_stream(handler)
    _send_event(handler, _delta(asked, "first"))
    server.hanging.set()
    server.over.wait()
    _send_event(handler, _delta(asked, " last", "stop"))


def _busy_once(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    if time_no == 1:
        told = {"error": {"message": "Rate limit reached"}}
        send_json(handler, 429, told, Retry_After_Ms="50")
    else:
        _echo(handler, server, asked, time_no)


def _busy(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    send_json(handler, 429, {"error": {"message": "Rate limit reached"}}, Retry_After="7")


def _fails_twice(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    if time_no <= 2:
        send_json(handler, 500, {"error": {"message": "The server had an error"}})
    else:
        _echo(handler, server, asked, time_no)


def _wrong_key(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    key = asked.headers.get("authorization", "").removeprefix("Bearer ")
    send_json(handler, 401, {"error": {"message": f"Incorrect API key provided: {key}"}})


def _error_with_200(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    send_json(handler, 200, {"error": {"message": "out of memory"}})


def _malformed(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    send(handler, 200, b'{"choices": [', Content_Type="application/json")


def _no_choices(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    send_json(handler, 200, {"choices": []})


def _hang(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    server.hanging.set()
    server.over.wait()


# --- stages of a node -----------------------------------------------------------------------------


def _stage(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Hears how long a WAV is, writes in capitals, and speaks a WAV of unknown length."""
    if asked.path.endswith("/audio/speech"):
        content = bytearray(_wav(b"\x10\x20" * 160 * len(asked.prompt)))
        content[4:8] = content[40:44] = b"\xff\xff\xff\xff"
        send(handler, 200, bytes(content), Content_Type="audio/wav")
    elif asked.path.startswith("/v1/audio/"):
        with wave.open(io.BytesIO(asked.body["file"])) as sound:
            heard = f"{sound.getnframes()} samples at {sound.getframerate()}"
        told = {"text": f" {heard}", "usage": {"input_tokens": 7, "output_tokens": 3}}
        if asked.body.get("response_format") == "verbose_json":
            told["language"] = "spanish"
        send_json(handler, 200, told)
    elif asked.body.get("stream"):
        _stream(handler, asked, [*asked.prompt.upper()])
    else:
        say(handler, asked, asked.prompt.upper())


def _wav(samples: bytes) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as out:
        out.setparams((1, 2, 16_000, 0, "NONE", ""))
        out.writeframes(samples)
    return written.getvalue()


def _keyed(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """A stage for those who have the right key."""
    if asked.headers.get("authorization") == "Bearer the-right-key":
        _stage(handler, server, asked, time_no)
    else:
        _wrong_key(handler, server, asked, time_no)


def _cut(handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int) -> None:
    """Closes the connection in the middle of its answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.wfile.flush()
    handler.close_connection = True


def _short(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Stops when it has no tokens left."""
    choice = {"finish_reason": "length", "message": {"role": "assistant", "content": "half an"}}
    send_json(handler, 200, {"choices": [choice]})


# --- judges ---------------------------------------------------------------------------------------


def _says(text: str | None) -> Behaviour:
    """A model that always answers with this text."""
    return lambda handler, server, asked, time_no: say(handler, asked, text)


def _marked(asked: Asked, name: str) -> str:
    """What stands between a judge's marks of this name."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", asked.prompt, re.DOTALL)
    return found[1] if found else ""


def _rubric_judge(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Gives 5 to an output that holds the word good, else 1."""
    score = 5 if "good" in _marked(asked, "output") else 1
    say(handler, asked, json.dumps({"score": score, "reason": f"scored {score}"}))


def _fair_judge(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Prefers the longer of two texts, wherever it stands."""
    first, second = len(_marked(asked, "first")), len(_marked(asked, "second"))
    winner = "tie" if first == second else "first" if first > second else "second"
    say(handler, asked, json.dumps({"winner": winner, "reason": "by length"}))


def _biased_judge(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Prefers what stands first."""
    say(handler, asked, json.dumps({"winner": "first", "reason": "it came first"}))


def _repairing_judge(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Answers in prose, and with JSON when it is told to."""
    if len(asked.body["messages"]) > 2:
        say(handler, asked, 'Sorry! ```json\n{"score": 4, "reason": "repaired"}\n```')
    else:
        say(handler, asked, "I think this is quite good, perhaps a four.")


def _alternating_judge(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """Gives 1, 5, 1, 5 and so on."""
    say(handler, asked, json.dumps({"score": 1 if time_no % 2 else 5, "reason": f"{time_no}"}))


def _busy_second(
    handler: BaseHTTPRequestHandler, server: OpenAiServer, asked: Asked, time_no: int
) -> None:
    """A rubric judge that refuses its second call."""
    if time_no == 2:
        told = {"error": {"message": "Rate limit reached"}}
        send_json(handler, 429, told, Retry_After_Ms="20")
    else:
        _rubric_judge(handler, server, asked, time_no)


def _body(headers: dict[str, str], content: bytes) -> dict[str, Any]:
    kind = headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        found: dict[str, Any] = json.loads(content)
        return found
    form = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + kind.encode() + b"\n\n" + content
    )
    body: dict[str, Any] = {}
    for part in form.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        payload: Any = part.get_payload(decode=True)
        body[name] = payload if part.get_filename() else payload.decode()
        if part.get_filename():
            body["filename"] = part.get_filename()
    return body


BEHAVIOURS: dict[str, Behaviour] = {
    "echo": _echo,
    "stage": _stage,
    "keyed": _keyed,
    "cut": _cut,
    "short": _short,
    "busy": _busy,
    "busy-once": _busy_once,
    "fails-twice": _fails_twice,
    "wrong-key": _wrong_key,
    "error-with-200": _error_with_200,
    "malformed": _malformed,
    "no-choices": _no_choices,
    "hang": _hang,
    "json": _says('{"a": [1, 2]}'),
    "broken-stream": _broken_stream,
    "failing-stream": _failing_stream,
    "malformed-stream": _malformed_stream,
    "endless-event": _endless_event,
    "late-stream": _late_stream,
    "rubric-judge": _rubric_judge,
    "fair-judge": _fair_judge,
    "biased-judge": _biased_judge,
    "repairing-judge": _repairing_judge,
    "alternating-judge": _alternating_judge,
    "busy-second": _busy_second,
    "prose-judge": _says("I like it a lot."),
    "empty-judge": _says(""),
    "silent-judge": _says(None),
    "huge-judge": _says("x" * 3_000_000),
    "off-scale-judge": _says('{"score": 11, "reason": "loved it"}'),
    "wrong-field-judge": _says('{"points": 3}'),
    "nan-judge": _says('{"score": "NaN", "reason": ""}'),
    "deep-judge": _says("[" * 100_000),
}
