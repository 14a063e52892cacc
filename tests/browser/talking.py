"""What the tests of the page that talks have in common."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.browser.pages import ConsolePage
from tests.integration.serve.server_process import (
    DRAGOMAN,
    ServerProcess,
    environment,
    eventually,
)

# The longest window that an analyser has, so that a page that is late hears it all the same.
WATCH_THE_SOUND = """
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  const analyser = this.context.createAnalyser();
  analyser.fftSize = 32768;
  this.connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const listen = () => {
    analyser.getFloatTimeDomainData(samples);
    if (samples.some((sample) => Math.abs(sample) > 0.001)) window.soundWasHeard = true;
  };
  setInterval(listen, 20);
  this.addEventListener("ended", listen);
  start.apply(this, when);
};
"""

PATIENT = environment(
    DRAGOMAN_SCHEDULER__NODE_HEALTH__RESOURCE_THRESHOLD_PERCENT="0",
    DRAGOMAN_SCHEDULER__JOB_TIMEOUT__PENDING_SECONDS="60",
    DRAGOMAN_SCHEDULER__JOB_TIMEOUT__TOTAL_SECONDS="90",
)
"""Nodes get jobs however busy the machine is with other work."""


@contextmanager
def simulated_node(
    server: ServerProcess, *, token: str | None = None, reader: str | None = None
) -> Iterator[None]:
    """A node that speaks some languages; of a server with keys, one for it and one that sees it."""
    languages = ("--asr", "en,es", "--nmt", "en,es,fr", "--tts", "en,es,fr")
    url = server.url.replace("http", "ws")
    command = [str(DRAGOMAN), "node", "--url", url, "--engine", "simulated", *languages]
    if token is not None:
        command += ["--token", token]
    node = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:

        def is_ready() -> bool:
            nodes = server.get("/api/v1/nodes", reader).json()["items"]
            return "ready" in [view["status"] for view in nodes]

        eventually(is_ready, "the node is ready")
        yield
    finally:
        node.kill()
        node.wait()


def say(console: ConsolePage, text: str) -> None:
    console.page.get_by_label("Write").fill(text)
    console.page.get_by_role("button", name="Send").click()


def sound_is_heard(console: ConsolePage) -> None:
    eventually(
        lambda: bool(console.page.evaluate("window.soundWasHeard === true")), "sound is heard"
    )
