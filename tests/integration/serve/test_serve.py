"""``dragoman serve`` as an operator meets it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
from pathlib import Path

import httpx
from tests.integration.serve import busy_server
from tests.integration.serve.server_process import (
    DRAGOMAN,
    ServerProcess,
    environment,
    eventually,
    run,
)


def test_a_server_answers_as_soon_as_it_says_that_it_is_ready(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert server.get("/healthz").json() == {"status": "ok"}
        ready = server.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert server.get("/openapi.json").json()["info"]["title"] == "Dragoman"
        assert "scheduler_event_loop_lag_seconds" in server.get("/metrics").text


def test_tools_on_the_machine_find_the_server_while_it_runs(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert server.record["url"] == server.url
        assert server.record["pid"] == server.process.pid
        assert server.record["instance_id"]
        assert str(server.record["started_at"]).endswith("Z")
        assert stat.S_IMODE(os.stat(server.data_dir).st_mode) == 0o700

        server.signal()
        assert server.wait() == 0
        assert not (server.data_dir / "server.json").exists()


def test_a_signal_lets_running_work_end_and_says_meanwhile_that_it_drains(tmp_path: Path) -> None:
    with busy(tmp_path) as server:
        server.signal(signal.SIGINT)
        eventually(lambda: server.get("/readyz").status_code == 503, "readyz answers 503")
        assert server.get("/readyz").json()["status"] == "draining"
        assert server.process.poll() is None

        (server.data_dir / "done").touch()
        assert server.wait() == 0
        assert "Traceback" not in server.all_output()


def test_a_server_that_leaves_takes_callers_until_its_load_balancer_has_noticed(
    tmp_path: Path,
) -> None:
    env = environment(DRAGOMAN_SERVER__DRAIN_DELAY_SECONDS="60")
    with ServerProcess(tmp_path / "data", env=env) as server:
        server.signal()
        eventually(lambda: server.get("/readyz").status_code == 503, "readyz answers 503")
        assert server.get("/readyz").json()["status"] == "leaving"
        job = {"src_lang": "en", "tgt_lang": "es", "text": "hello"}
        answer = httpx.post(server.url + "/api/v1/jobs", json=job)
        assert answer.json()["error"]["code"] == "PAIR_UNSUPPORTED"

        server.signal()
        assert server.wait() == 130


def test_files_where_the_server_was_started_are_not_taken_for_modules(tmp_path: Path) -> None:
    """A user's folder may hold a file that is called like a module of Python."""
    (tmp_path / "timeit.py").write_text("raise SystemExit('not what was meant')")
    with ServerProcess(tmp_path / "data", lab=True, cwd=tmp_path) as server:
        assert server.get("/api/v1/datasets").status_code == 200
        assert "not what was meant" not in server.log


def test_a_terminal_that_closes_drains_the_server_however_often_it_says_so(tmp_path: Path) -> None:
    """A shell and the kernel may each send the signal."""
    with busy(tmp_path) as server:
        server.signal(signal.SIGHUP)
        eventually(lambda: server.get("/readyz").status_code == 503, "readyz answers 503")
        server.signal(signal.SIGHUP)
        assert server.get("/readyz").json()["status"] == "draining"

        (server.data_dir / "done").touch()
        assert server.wait() == 0


def test_a_server_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    command = ("nohup", DRAGOMAN, "serve")
    with ServerProcess(tmp_path / "data", command=command) as server:
        server.signal(signal.SIGHUP)
        server.signal(signal.SIGHUP)
        assert server.get("/readyz").status_code == 200
        server.signal()
        assert server.wait() == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with busy(tmp_path) as server:
        server.signal()
        eventually(lambda: server.get("/readyz").status_code == 503, "readyz answers 503")
        server.signal()

        assert server.wait() == 130
        assert not (server.data_dir / "server.json").exists()
        told = server.all_output()
        for nothing_wrong in ("Traceback", "ERROR", "sockets_left"):
            assert nothing_wrong not in told


def busy(tmp_path: Path) -> ServerProcess:
    return ServerProcess(tmp_path / "data", command=[sys.executable, busy_server.__file__])


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        code, output, errors = run("serve", "--port", port, "--data-dir", tmp_path)

    assert (code, output) == (1, "")
    assert errors.splitlines() == [
        f"error: Port {port} on 127.0.0.1 is in use by another program; stop it, or choose "
        "another port with --port (0 takes any free one)."
    ]


def test_two_servers_do_not_share_a_data_folder(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        code, output, errors = run("serve", "--port", "0", "--data-dir", first.data_dir)

        assert (code, output) == (1, "")
        assert f"in use by another server (pid {first.process.pid})" in errors
        assert first.get("/healthz").status_code == 200


def test_a_server_that_was_killed_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as first:
        first.signal(signal.SIGKILL)
        first.wait()
    with ServerProcess(tmp_path / "data") as second:
        assert second.get("/readyz").status_code == 200


def test_open_mode_is_refused_where_other_machines_can_reach_it(tmp_path: Path) -> None:
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", tmp_path / "data")

    code, output, errors = run(*arguments)

    assert (code, output) == (2, "")
    assert 'set auth.mode = "keys"' in errors
    assert not (tmp_path / "data").exists()


def test_open_mode_is_let_out_where_the_network_is_trusted(tmp_path: Path) -> None:
    insecure = environment(DRAGOMAN_AUTH__INSECURE="true")

    with ServerProcess(tmp_path / "data", "--host", "0.0.0.0", env=insecure) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.get("/healthz").status_code == 200


def test_a_demo_ends_by_itself(tmp_path: Path) -> None:
    code, output, _ = run("demo", "--port", "0", "--seconds", "0.1")

    assert code == 0
    assert "Dragoman is ready at http://127.0.0.1:" in output
    assert output.count("curl") == 1
    assert output.count("dragoman say") == 1


def test_a_data_folder_that_is_a_file_is_named_as_one(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    for folder in (file, file / "data"):
        code, _, errors = run("serve", "--port", "0", "--data-dir", folder)
        assert (code, f"{file} is a file" in errors) == (1, True), errors


def test_without_keys_the_list_names_its_database_and_makes_none(tmp_path: Path) -> None:
    """The command may have been given another folder than the server's."""
    folder = tmp_path / "mistyped"
    code, output, _ = run("keys", "list", "--data-dir", folder)
    assert (code, f"{folder}/dragoman.db" in output) == (0, True), output
    assert not folder.exists()


def test_a_day_that_is_none_is_refused_before_a_server_is_asked() -> None:
    for option in ("--from", "--to"):
        code, _, errors = run("usage", option, "2026-13-45", "--url", "http://127.0.0.1:1")
        assert (code, "'2026-13-45' is not a day" in errors) == (2, True), errors
