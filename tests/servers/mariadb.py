"""A real MariaDB that a test may pause, kill and bring back."""

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

_PORT_TRIES = 5
_FREE_BYTES = 2**30
_UNPRIVILEGED = ("mysql", "nobody")
_WITHOUT_THE_DISK = (
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
    "--skip-sync-frm",
)
"""The machine does not fail during a test, only processes do: what was written is there."""
_SETTINGS = (
    "--skip-innodb-file-per-table",
    "--innodb-log-file-size=32M",
    "--innodb-buffer-pool-size=64M",
    "--skip-performance-schema",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--max-connections=200",
    "--default-time-zone=+05:30",
    "--bind-address=127.0.0.1",
)


class MariadbProcess:
    """One MariaDB server on a free port of this machine, in a folder that goes with it."""

    def __init__(self, *, durable: bool = False) -> None:
        """Set it up, start it and wait until it answers. `durable`: it waits for the disk."""
        self._settings = _SETTINGS if durable else _SETTINGS + _WITHOUT_THE_DISK
        self._program = require_program("mariadbd")
        self._client = require_program("mariadb")
        self._owner = _unprivileged_user()
        self._folder = Path(
            tempfile.mkdtemp(prefix="dragoman-mariadb-", dir=None if durable else _in_memory())
        )
        if self._owner is not None:
            shutil.chown(self._folder, self._owner)
        self._numbers = count(1)
        self._template: bytes | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self._start()
            self._admit()
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
        return self._create(b"")

    def fresh_database(self) -> str:
        """The URL of a new database that has Dragoman's schema and nothing in it.

        The migrations run once for each server; later databases are made from what they made.
        """
        if self._template is None:
            url = self.empty_database()
            upgrade(url)
            self._template = self._schema_of(url.rpartition("/")[2])
        return self._create(self._template)

    def sql(self, statement: str, database: str = "mysql") -> str:
        """The answer to a statement, as the command-line client prints it."""
        return self._run(statement.encode(), database)

    def drop_connections(self) -> None:
        """End every other connection, as a failover would."""
        self.sql(f"KILL CONNECTION USER '{USER}'")

    def kill(self) -> None:
        """End it and all its connections at once, without a farewell."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        """Start it again on the same port, with what it had stored."""
        self._process = self._spawn()
        wait_until(self._answers, "MariaDB to answer again")

    def stop(self) -> None:
        """End it and remove its files; harmless when it has ended."""
        if self.running:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _create(self, script: bytes) -> str:
        name = f"dragoman{next(self._numbers)}"
        create = f"CREATE DATABASE {name}; USE {name};\n".encode()
        self._run(create + script, "mysql")
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def _schema_of(self, database: str) -> bytes:
        done = subprocess.run(
            [
                *(require_program("mariadb-dump"), *self._login),
                *("--skip-comments", "--triggers", "--skip-add-drop-table", "--skip-lock-tables"),
                *("--no-autocommit", database),
            ],
            capture_output=True,
            check=True,
        )
        return done.stdout

    def _run(self, script: bytes, database: str) -> str:
        done = subprocess.run(
            [self._client, *self._login, "--batch", "--skip-column-names", database],
            input=script,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()

    @property
    def _login(self) -> tuple[str, ...]:
        return ("--no-defaults", "--user=root", f"--socket={self._socket}")

    @property
    def _socket(self) -> Path:
        return self._folder / "socket"

    def _initialise(self) -> None:
        done = subprocess.run(
            [
                *(require_program("mariadb-install-db"), "--no-defaults", "--skip-test-db"),
                *("--auth-root-authentication-method=normal", f"--datadir={self._data}"),
                *(option for option in self._settings if "innodb" in option),
            ],
            user=self._owner,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")

    def _start(self) -> None:
        for _ in range(_PORT_TRIES):
            self.port = free_port()
            self._process = self._spawn()
            wait_until(lambda: self._answers() or not self.running, "MariaDB to answer")
            if self.running:
                return
            # Another program took the port between finding and using it.
        raise RuntimeError(f"MariaDB does not start:\n{self._log.read_text()}")

    def _admit(self) -> None:
        """Let the user of the URLs in, as an administrator would."""
        self.sql(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'; "
            f"GRANT ALL ON `dragoman%`.* TO '{USER}'@'%'"
        )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "mariadb.log"

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [
                    *(self._program, "--no-defaults", f"--datadir={self._data}"),
                    *(f"--port={self.port}", f"--socket={self._socket}", *self._settings),
                    f"--pid-file={self._folder}/pid",
                ],
                user=self._owner,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def _answers(self) -> bool:
        # Its socket is its own, so that no foreign server on the port can answer.
        if not self._socket.exists():
            return False
        asked = [self._client, *self._login, "--execute", "SELECT 1"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _in_memory() -> Path | None:
    """A folder in memory, where there is one: MariaDB waits for the disk with every new table."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > _FREE_BYTES else None


def _unprivileged_user() -> str | None:
    """Whom MariaDB runs as: it refuses root, and anyone else may run it as themselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)
