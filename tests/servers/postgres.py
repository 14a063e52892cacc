"""A real PostgreSQL that a test may pause, kill and bring back."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from itertools import count
from pathlib import Path

from tests.servers.programs import free_port, require_program, wait_until

from dragoman.store import upgrade

PASSWORD = "a-password-that-nobody-sees"
USER = "dragoman"

_INSTALLED = Path("/usr/lib/postgresql")
_PORT_TRIES = 5
_UNPRIVILEGED = ("postgres", "nobody")
_WITHOUT_THE_DISK = {"fsync": "off", "full_page_writes": "off"}
"""The machine does not fail during a test, only processes do: what was written is there."""
_SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "200",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
}


class PostgresProcess:
    """One PostgreSQL server on a free port of this machine, in a folder that goes with it."""

    def __init__(self, *, durable: bool = False) -> None:
        """Set it up, start it and wait until it answers. `durable`: it waits for the disk."""
        self._settings = _SETTINGS if durable else _SETTINGS | _WITHOUT_THE_DISK
        self._bin = _programs()
        self._owner = _unprivileged_user()
        self._folder = Path(tempfile.mkdtemp(prefix="dragoman-postgres-"))
        if self._owner is not None:
            shutil.chown(self._folder, self._owner)
        self._numbers = count(1)
        self._template: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def empty_database(self) -> str:
        """The URL of a new database with nothing in it."""
        return self._create("template0")

    def fresh_database(self) -> str:
        """The URL of a new database that has Dragoman's schema and nothing in it.

        The migrations run once for each server; later databases are copies.
        """
        if self._template is None:
            url = self.empty_database()
            upgrade(url)
            self._template = url.rpartition("/")[2]
        return self._create(self._template)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """The answer to a statement, as psql prints it."""
        done = subprocess.run(
            [
                *(str(self._bin / "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"),
                *("--host", "127.0.0.1", "--port", str(self.port), "--username", USER),
                *("--dbname", database, "--command", statement),
            ],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def drop_connections(self) -> None:
        """End every other connection, as a failover would."""
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def kill(self) -> None:
        """End it and all its connections at once, without a farewell."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def restart(self) -> None:
        """Start it again on the same port, with what it had stored."""
        self._process = self._spawn()
        wait_until(self._answers, "PostgreSQL to answer again")

    def stop(self) -> None:
        """End it and remove its files; harmless when it has ended."""
        if self.running:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _create(self, template: str) -> str:
        name = f"dragoman{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def _initialise(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        done = subprocess.run(
            [
                *(str(self._bin / "initdb"), "--pgdata", str(self._folder / "data")),
                *("--username", USER, "--pwfile", str(password), "--auth", "scram-sha-256"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            user=self._owner,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def _start(self) -> None:
        for _ in range(_PORT_TRIES):
            self.port = free_port()
            self._process = self._spawn()
            wait_until(lambda: self._answers() or not self.running, "PostgreSQL to answer")
            if self.running:
                return
            # Someone took the port between finding and using it.
        raise RuntimeError(f"PostgreSQL does not start:\n{self._log.read_text()}")

    @property
    def _log(self) -> Path:
        return self._folder / "postgres.log"

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = [
            word for key, value in self._settings.items() for word in ("-c", f"{key}={value}")
        ]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [
                    *(str(self._bin / "postgres"), "-D", str(self._folder / "data")),
                    *("-p", str(self.port), *settings),
                ],
                user=self._owner,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def _answers(self) -> bool:
        # Only its own lock file tells it from a foreign server on the port.
        assert self._process is not None
        try:
            lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and "ready" in lines[7]


def _programs() -> Path:
    """The folder of the newest installed PostgreSQL; Debian keeps it off the path."""
    versions = [path.parent for path in _INSTALLED.glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda found: float(found.parent.name))
    return Path(require_program("initdb")).parent


def _unprivileged_user() -> str | None:
    """Whom PostgreSQL runs as: it refuses root, and anyone else may run it as themselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)
