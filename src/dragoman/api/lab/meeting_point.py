"""The socket in the data folder over which the live process and the lab's process meet."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from dragoman.errors import CannotStart

SOCKET_FILE = "lab.sock"
_BACKLOG = 512
_OWNER_ONLY = 0o600


class MeetingPoint:
    """A listening Unix socket that outlives the processes which answer on it.

    The live process makes it and hands it to each child in turn: a caller that connects while a
    child is being replaced waits in line for the next one.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = os.open(data_dir, os.O_PATH | os.O_DIRECTORY)
        # Through the open folder the path is short, however long that of the folder is: the
        # kernel takes no more than 107 characters.
        self.path = f"/proc/self/fd/{self._folder}/{SOCKET_FILE}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # What is there was left by a server that did not end well: the folder is ours alone.
            Path(self.path).unlink(missing_ok=True)
            self.listener.bind(self.path)
            Path(self.path).chmod(_OWNER_ONLY)
            self.listener.listen(_BACKLOG)
        except OSError as error:
            self.close()
            raise CannotStart(
                f"The lab's socket in {data_dir} cannot be made ({error.strerror}); name a folder "
                "on a local disk with --data-dir, or set lab.enabled = false."
            ) from error

    def close(self) -> None:
        """Let go of the socket and remove its file."""
        self.listener.close()
        Path(self.path).unlink(missing_ok=True)
        os.close(self._folder)
