"""A real Redis that a test may pause, kill and bring back."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.servers.programs import free_port, require_program, wait_until

PATIENT_MS = 20_000
"""How long a call may take where the time is not what is tested: a busy machine is not down."""

_PORT_TRIES = 5

_DUMP = "dump.rdb"


class RedisProcess:
    """One redis-server on a free port of this machine, which keeps nothing on disk."""

    def __init__(self, directory: Path, *options: str) -> None:
        """Start it in a directory of its own and wait until it answers."""
        self._program = require_program("redis-server")
        self._cli = require_program("redis-cli")
        self._directory = directory
        self._options = options
        self._directory.mkdir(parents=True, exist_ok=True)
        for _ in range(_PORT_TRIES):
            self.port = free_port()
            self._process = self._spawn()
            try:
                wait_until(lambda: self._answers() or not self.running, "redis-server to answer")
            except BaseException:
                self.stop()
                raise
            if self.running:
                return
            # Someone took the port between finding and using it.
        log = (self._directory / "redis.log").read_text()
        raise RuntimeError(f"redis-server does not start:\n{log}")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def command(self, *words: str, timeout_seconds: float = 5.0) -> str:
        """The answer to one command, as redis-cli prints it."""
        done = subprocess.run(
            [self._cli, "-p", str(self.port), *words],
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        return done.stdout.strip()

    def flush(self) -> None:
        """Forget everything."""
        self.command("FLUSHALL")

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def restart_empty(self) -> None:
        """Kill it and start it again on the same port, without its data."""
        self.kill()
        # A server that followed another once has a dump of that time.
        (self._directory / _DUMP).unlink(missing_ok=True)
        self._start_again()

    def dump(self) -> None:
        """Write all data to disk, for `restart_from_dump`."""
        # Refused while a replica is being given its first copy.
        wait_until(lambda: self.command("SAVE") == "OK", "redis-server to write its dump")

    def restart_from_dump(self) -> None:
        """Kill it and start it again on the same port, with the data of the last dump."""
        assert (self._directory / _DUMP).exists(), "there is no dump to start from"
        self.kill()
        self._start_again()

    def restart(self) -> None:
        """End it in peace and start it again on the same port; it forgets nothing."""
        self.command("SHUTDOWN", "SAVE")
        self._process.wait(timeout=20)
        self._start_again()

    def _start_again(self) -> None:
        self._process = self._spawn()
        wait_until(self._answers, "redis-server to answer again")

    def start_replica(self, directory: Path) -> RedisProcess:
        """Another Redis that follows this one; returned once it has caught up."""
        replica = RedisProcess(directory, "--replicaof", "127.0.0.1", str(self.port))
        wait_until(
            lambda: "master_link_status:up" in replica.command("INFO", "replication"),
            "the replica to follow",
        )
        return replica

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        if self.running:
            self.resume()
            self.kill()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self._directory / "redis.log").open("ab") as log:
            return subprocess.Popen(
                [
                    *(self._program, "--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--dir", str(self._directory), "--save", "", "--appendonly", "no"),
                    *("--repl-diskless-sync-delay", "0", "--enable-debug-command", "local"),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )

    def _answers(self) -> bool:
        # A foreign server on the port answers too; only the process id tells them apart.
        return f"process_id:{self.pid}" in self.command("INFO", "server").split()
