"""A machine for one page: an empty home, a network and a process table that no other page uses.

Pages name fixed ports, such as 8080. In a network namespace of its own each page may have them, so
that pages are followed as they stand, several at a time. Every process ends with the namespace.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
os.execvp("bash", ["bash", "--noprofile", "--norc"])
"""
NAMESPACES = (
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)
NETWORK_OF_ITS_OWN = (*NAMESPACES, "--net", sys.executable, "-c", LOOPBACK_UP)
NETWORK_OF_THE_MACHINE = (*NAMESPACES, "bash", "--noprofile", "--norc")
PATIENCE_SECONDS = 240


class CommandFailed(AssertionError):
    """A command of a page ended with an error, or never became ready."""


def namespaces_are_allowed() -> bool:
    """Whether this machine lets an ordinary process have a network of its own."""
    tried = subprocess.run([*NAMESPACES, "--net", "true"], capture_output=True, check=False)
    return tried.returncode == 0


class Sandbox:
    """One shell that stays open, as a reader's terminal does, and the programs left running."""

    def __init__(
        self,
        folder: Path,
        *,
        home: Path,
        path: str,
        env: Mapping[str, str],
        own_network: bool = True,
    ) -> None:
        self.folder = folder
        self._logs_folder = home.parent  # not the page's folder, which two pages may share
        self._shell = subprocess.Popen(
            NETWORK_OF_ITS_OWN if own_network else NETWORK_OF_THE_MACHINE,
            cwd=folder,
            env={"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,  # no command finds a terminal to ask its questions on
        )
        self._running: dict[str, tuple[str, Path]] = {}
        self._started = 0

    @property
    def running(self) -> list[str]:
        """The names of the programs that were started and not stopped."""
        return list(self._running)

    def run(self, command: str) -> str:
        """Run the command in the terminal and answer what it printed."""
        status, output = self._ask(command)
        if status:
            raise CommandFailed(f"exit {status}: {command}\n{output}\n{self._logs()}")
        return output

    def start(self, name: str, command: str, ready: str) -> str:
        """Start a program in a terminal of its own, and wait until it says that it is ready."""
        self._started += 1
        log = self._logs_folder / f"terminal-{self._started}.log"
        _, pid = self._ask(f"{command} >{log} 2>&1 </dev/null & echo $!")
        pid = pid.strip().splitlines()[-1]
        self._running[name] = pid, log
        until = time.monotonic() + PATIENCE_SECONDS
        while not re.search(ready, text := log.read_text() if log.exists() else ""):
            ended, _ = self._ask(f"kill -0 {pid} 2>/dev/null")
            if ended or time.monotonic() > until:
                raise CommandFailed(f"never ready ({ready}): {command}\n{text}")
            time.sleep(0.05)
        return text

    def stop(self, name: str) -> None:
        """Stop a program as Ctrl-C does, and wait for its end."""
        pid, _ = self._running.pop(name)
        self._ask(f"kill {pid}; wait {pid}")

    def close(self) -> None:
        """End the terminal and everything that was started in it."""
        self._shell.kill()
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, command: str) -> tuple[int, str]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        mark = f"--- {os.urandom(8).hex()}"
        # The braces keep `cd` and `export` for the commands that follow.
        script = f"{{\n{command}\n}} </dev/null\nprintf '\\n%s %d\\n' '{mark}' $?\n"
        self._shell.stdin.write(script.encode())
        output = b""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (end := re.search(rf"\n{mark} (\d+)\n".encode(), output)):
            left = max(0.0, until - time.monotonic())
            if not select.select([self._shell.stdout], [], [], left)[0]:
                raise CommandFailed(f"did not end in {PATIENCE_SECONDS} s: {command}\n{output!r}")
            printed = os.read(self._shell.stdout.fileno(), 65_536)
            if not printed:
                raise CommandFailed(f"the terminal ended during: {command}\n{output!r}")
            output += printed
        return int(end[1]), output[: end.start()].decode(errors="replace")

    def _logs(self) -> str:
        return "\n".join(
            f"[{name}]\n{log.read_text()[-2000:]}" for name, (_, log) in self._running.items()
        )
