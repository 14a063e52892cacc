"""The program that runs a snippet where it can reach nothing.

It is started as a file, with an empty environment, and needs only the standard library. Three
processes of it take part:

- the outer one makes the namespaces, and ends everything when the lab is gone;
- the inner one is process 1 of the new process table. It builds a file system that holds Python's
  libraries, read-only, and nothing else. When it ends, the kernel ends all that is left inside;
- the last one gives up every right, sets the limits, and runs the snippet.

The snippet's own process cannot touch the other two: the outer one is not in its process table,
the inner one is process 1, which takes no signals from inside, and cannot be traced.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import select
import signal
import socket
import sys
import warnings
from types import CodeType
from typing import Any, NoReturn

BEGUN = b"begun\n"
REFUSED = b"refused "
ENDED = b"ended "

INSIDE_ID = 65534
"""The user and group that the snippet runs as, inside; outside too, if the lab runs as root."""

EXPRESSION, STATEMENTS = "<expression>", "<statements>"
"""What a snippet is, as the name of its file."""

MAX_ANSWER_BYTES = 1 << 20
MAX_ERROR_CHARACTERS = 1500

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_NOATIME, _MS_NODIRATIME, _MS_BIND = 32, 1024, 2048, 4096
_MS_REC, _MS_PRIVATE, _MS_RELATIME = 16384, 1 << 18, 1 << 21
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_SYSTEM_CALLS = {"x86_64": (155, 250), "aarch64": (41, 219)}
"""The numbers of pivot_root and keyctl."""

_libc = ctypes.CDLL(None, use_errno=True)


class CannotBeHad(Exception):
    """Raised when the machine does not give what a snippet has to be shut up in."""


def main(control: int, answers: int) -> None:
    """Run the snippet that standard input describes."""
    told = socket.socket(fileno=control)
    try:
        request = json.loads(sys.stdin.buffer.read())
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if numbers is None:
            raise CannotBeHad(f"machines of the kind {platform.machine()} are not known")
        _enter_namespaces()
    except CannotBeHad as error:
        told.sendall(REFUSED + str(error).encode() + b"\n")
        return
    inner = os.fork()
    if inner == 0:
        _guarded(lambda: _inner(request, told, answers, numbers), told)
    os.close(answers)
    told.sendall(ENDED + str(_wait_for(inner, told)).encode() + b"\n")


# --- the outer process ----------------------------------------------------------------------------


def _enter_namespaces() -> None:
    """Leave the machine's users, processes, network, mounts and messages."""
    own, outside_user, outside_group = os.getpid(), os.geteuid(), os.getegid()
    ready, tell = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(tell)
        done = os.read(ready, 1)
        os._exit(_map_ids(own, outside_user, outside_group) if done else 1)
    os.close(ready)
    flags = _CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET
    try:
        _call("unshare", flags | _CLONE_NEWIPC | _CLONE_NEWUTS)
        os.write(tell, b"x")
    finally:
        os.close(tell)
        _, status = os.waitpid(mapper, 0)
    if os.waitstatus_to_exitcode(status):
        raise CannotBeHad("the user namespace cannot be given a user (uid_map)")


def _map_ids(pid: int, user: int, group: int) -> int:
    """Say which user the one inside is. Only a process outside may name another than its own.

    Root names one that owns nothing. Where it may not, as in a container that has no such user, it
    names itself, as every other user does: the namespaces keep the snippet from the rest.
    """
    own = (user, group)
    for outside in ([(INSIDE_ID, INSIDE_ID)] if user == 0 else []) + [own]:
        try:
            _write(f"/proc/{pid}/setgroups", "deny")
            _write(f"/proc/{pid}/uid_map", f"{INSIDE_ID} {outside[0]} 1")
            _write(f"/proc/{pid}/gid_map", f"{INSIDE_ID} {outside[1]} 1")
        except OSError:
            continue
        return 0
    return 1


def _write(path: str, content: str) -> None:
    with open(path, "w") as file:
        file.write(content)


def _wait_for(inner: int, told: socket.socket) -> int:
    """Wait for the inner process; kill it, and all inside, when the lab closes its side."""
    try:
        handle = os.pidfd_open(inner)
    except OSError:
        handle = -1
    while True:
        watched = [told.fileno(), *([handle] if handle >= 0 else [])]
        readable, _, _ = select.select(watched, [], [], None if handle >= 0 else 0.02)
        if told.fileno() in readable and not told.recv(16):
            os.kill(inner, signal.SIGKILL)
            _, status = os.waitpid(inner, 0)
            return os.waitstatus_to_exitcode(status)
        ended, status = os.waitpid(inner, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


# --- the inner process ----------------------------------------------------------------------------


def _guarded(work: Any, told: socket.socket) -> NoReturn:
    """Do the work and end; what goes wrong is told, and never runs on in the wrong process."""
    try:
        work()
    except CannotBeHad as error:
        told.sendall(REFUSED + str(error).encode() + b"\n")
    except BaseException as error:
        told.sendall(REFUSED + f"{type(error).__name__}: {error}".encode() + b"\n")
    os._exit(0)


def _inner(
    request: dict[str, Any], told: socket.socket, answers: int, numbers: tuple[int, int]
) -> None:
    pivot_root, keyctl = numbers
    _libc.syscall(keyctl, 1, None)  # a session keyring of its own: keys are inherited, too
    _close_ways_out()
    _build_root(request["libraries"], pivot_root)
    # After the change of user, which would undo it.
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)
    _give_up_rights()
    told.sendall(BEGUN)
    last = os.fork()
    if last == 0:
        told.close()
        _guarded_snippet(request, answers)
    os.close(answers)
    _close_output()
    _, status = os.waitpid(last, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _close_ways_out() -> None:
    """Allow no namespaces inside, and no shared memory, which no limit of a process counts.

    Each is tried: a kernel may not know one, or not let this process decide it.
    """
    for name in ("user/max_user_namespaces", "kernel/shmmni", "kernel/shmall", "kernel/msgmni"):
        with contextlib.suppress(OSError):
            _write(f"/proc/sys/{name}", "0")


def _build_root(libraries: list[str], pivot_root: int) -> None:
    """Have a file system with the libraries and nothing else, none of it writable."""
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    # Opened before the user changes: the folders above may be closed to all others.
    sources = [(path, os.open(path, os.O_PATH)) for path in libraries if os.path.isdir(path)]
    _call("setresgid", INSIDE_ID, INSIDE_ID, INSIDE_ID)
    _call("setresuid", INSIDE_ID, INSIDE_ID, INSIDE_ID)
    root = "/tmp" if os.path.isdir("/tmp") else "/"
    _mount("none", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for path, source in sources:
        place = root + os.path.realpath(path)
        os.makedirs(place, exist_ok=True)
        _mount(f"/proc/self/fd/{source}", place, None, _MS_BIND | _MS_REC)
        _mount(None, place, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _flags_of(place))
        os.close(source)
    for path in libraries:
        _link(root, path)
    os.makedirs(f"{root}/old", exist_ok=True)
    os.chdir(root)
    if _libc.syscall(pivot_root, b".", b"old"):
        raise CannotBeHad(f"pivot_root: {os.strerror(ctypes.get_errno())}")
    os.chdir("/")
    _call("umount2", b"/old", _MNT_DETACH)
    os.rmdir("/old")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _link(root: str, path: str) -> None:
    """Have a path lead where it leads outside: /lib is often a link to /usr/lib."""
    real = os.path.realpath(path)
    if real == path or os.path.lexists(root + path):
        return
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    os.symlink(real, root + path)


def _flags_of(place: str) -> int:
    """The flags of a mount, which a process without the right to change them has to repeat."""
    found = os.statvfs(place).f_flag
    known = (
        (os.ST_NOSUID, _MS_NOSUID),
        (os.ST_NODEV, _MS_NODEV),
        (os.ST_NOEXEC, _MS_NOEXEC),
        (os.ST_NOATIME, _MS_NOATIME),
        (os.ST_NODIRATIME, _MS_NODIRATIME),
        (os.ST_RELATIME, _MS_RELATIME),
    )
    return sum(flag for bit, flag in known if found & bit)


def _give_up_rights() -> None:
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(header), ctypes.byref(nothing))


def _close_output() -> None:
    for descriptor in (0, 1, 2):
        os.close(descriptor)


def _mount(source: str | None, place: str, kind: str | None, flags: int, data: str = "") -> None:
    if _libc.mount(
        None if source is None else source.encode(),
        place.encode(),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data.encode() or None,
    ):
        raise CannotBeHad(f"mount of {place}: {os.strerror(ctypes.get_errno())}")


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments):
        raise CannotBeHad(f"{name}: {os.strerror(ctypes.get_errno())}")


# --- the snippet's process ------------------------------------------------------------------------


def _guarded_snippet(request: dict[str, Any], answers: int) -> NoReturn:
    answer = b'{"error":"MemoryError"}'
    try:
        _set_limits(request)
        answer = _answer(request)
    except MemoryError:
        pass
    except BaseException as error:
        answer = _error(error)
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:
        pass  # the snippet may have closed or replaced them
    try:
        while answer:
            answer = answer[os.write(answers, answer) :]
    finally:
        os._exit(0)


def _set_limits(request: dict[str, Any]) -> None:
    seconds = int(request["seconds"]) + 2
    for name, limit in (
        ("RLIMIT_AS", request["memory_bytes"]),
        ("RLIMIT_CPU", seconds),
        # Itself and process 1. A thread counts as a process.
        ("RLIMIT_NPROC", 2),
        ("RLIMIT_NOFILE", 64),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MEMLOCK", 0),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_SIGPENDING", 64),
    ):
        resource.setrlimit(getattr(resource, name), (limit, limit))


def _answer(request: dict[str, Any]) -> bytes:
    sys.path[:] = request["paths"]
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    values = request["values"]
    space: dict[str, Any] = {"__name__": "snippet"}
    compiled = _compiled(request["code"])
    if request["only_check"]:
        return _told(value="")
    if not _is_expression(compiled):
        exec(compiled, space)
        function = space.get("score")
        if not callable(function):
            return _told(error="it defines no function `score`")
        said = function(**_arguments(function, values))
    else:
        said = eval(compiled, {**space, **values})
    try:
        found = json.dumps({"value": said}, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        return _told(error=f"it returned what is no score: {error}")
    if len(found) > MAX_ANSWER_BYTES:
        return _told(error=f"it returned over {MAX_ANSWER_BYTES:,} bytes")
    return found


def _compiled(text: str) -> CodeType:
    warnings.simplefilter("ignore")  # they would count as printed
    try:
        return compile(text.strip(), EXPRESSION, "eval")
    except SyntaxError:
        return compile(text, STATEMENTS, "exec")


def _is_expression(compiled: CodeType) -> bool:
    return compiled.co_filename == EXPRESSION


def _arguments(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values that the function takes, by the names of its parameters."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return values
    for one in parameters:
        if one.default is one.empty and one.name not in values:
            raise NameError(f"`score` takes `{one.name}`; there are {', '.join(values)}")
    return {one.name: values[one.name] for one in parameters if one.name in values}


def _plain(value: Any) -> Any:
    """A number of another library, such as numpy's, as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


def _error(error: BaseException) -> bytes:
    """What went wrong, and in which line of the snippet."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename in (EXPRESSION, STATEMENTS):
            line = at.tb_lineno
        at = at.tb_next
    where = "" if line is None else f" (line {line})"
    try:
        said = str(error.msg if isinstance(error, SyntaxError) else error)
    except BaseException:
        said = ""
    return _told(error=f"{type(error).__name__}: {said[:MAX_ERROR_CHARACTERS]}{where}")


def _told(**answer: str) -> bytes:
    return json.dumps(answer).encode()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
