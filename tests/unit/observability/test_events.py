"""Events as an operator reads them, and as a log collector does."""

from __future__ import annotations

import io
import logging
import re

import pytest
from tests.unit.observability.log_output import logging_to

from dragoman.clock import ManualClock
from dragoman.observability import configure_logging, get_logger

RFC3339_UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def test_a_console_line_shows_time_level_event_fields_and_origin() -> None:
    with logging_to("info", "console") as output:
        get_logger("dragoman.fleet").info(
            "node_registered", node_id="n-1", services=["asr", "nmt"], pools={"zh:en": 2}, slots=4
        )

    assert re.fullmatch(
        RFC3339_UTC + r" INFO    node_registered node_id=n-1 services=\[asr,nmt\] "
        r"pools=\{zh:en:2\} slots=4 \(dragoman\.fleet\)",
        output.lines[0],
    )


def test_a_json_line_is_one_object_with_its_fields_at_the_top() -> None:
    with logging_to("info", "json") as output:
        get_logger("dragoman.fleet").warning("failover", job_id="j-1", from_="n-1", attempts=2)

    (event,) = output.objects
    assert re.fullmatch(RFC3339_UTC, event.pop("time"))
    assert event == {
        "level": "warning",
        "logger": "dragoman.fleet",
        "event": "failover",
        "job_id": "j-1",
        "from": "n-1",
        "attempts": 2,
    }


def test_a_field_cannot_replace_the_time_or_the_level_of_its_event() -> None:
    with logging_to("info", "json") as output:
        get_logger("dragoman").info("job_ended", level="high", time="never", event="party")

    (event,) = output.objects
    assert (event["level"], event["level_"]) == ("info", "high")
    assert (event["event"], event["event_"]) == ("job_ended", "party")
    assert event["time_"] == "never"


@pytest.mark.parametrize("value", ["a\nb", "\x1b[31mred", "a\r\n2026-01-01 forged", "\u2028"])
def test_a_value_cannot_forge_a_second_line(value: str) -> None:
    with logging_to("info", "console") as output:
        get_logger("dragoman").info("hello", name=value)
        logging.getLogger("library").warning("message %s", value)

    assert len(output.lines) == 2
    assert "\x1b" not in output.text


@pytest.mark.parametrize("value", ["\ud800", 2**90, float("nan"), "你好", {"a": {"b": None}}])
def test_odd_values_are_written_and_not_lost(value: object) -> None:
    with logging_to("info", "json") as output:
        get_logger("dragoman").info("odd", value=value)

    assert output.objects[0]["event"] == "odd"
    assert "value" in output.objects[0]


def test_an_exception_is_written_with_its_traceback() -> None:
    with logging_to("info", "json") as output:
        try:
            raise ValueError("the database said no")
        except ValueError:
            get_logger("dragoman").exception("handler_failed", connection_id="c-1")

    (event,) = output.objects
    assert event["connection_id"] == "c-1"
    assert event["traceback"].endswith("ValueError: the database said no\n")


def test_events_below_the_level_are_not_written() -> None:
    with logging_to("warning", "json") as output:
        log = get_logger("dragoman")
        log.debug("quiet")
        log.info("quiet")
        log.warning("heard")
        log.error("heard")

    assert [event["event"] for event in output.objects] == ["heard", "heard"]


def test_the_debug_level_is_for_dragoman_and_not_for_libraries_that_quote_frames() -> None:
    with logging_to("debug", "json") as output:
        get_logger("dragoman.fleet").debug("heard")
        logging.getLogger("websockets.server").debug("> TEXT 'what a speaker said'")
        logging.getLogger("another.library").info("Started")

    assert [event["event"] for event in output.objects] == ["heard", "Started"]


def test_configuring_twice_writes_each_event_once() -> None:
    with logging_to("info", "json") as first:
        second = io.StringIO()
        configure_logging("info", "json", second)
        get_logger("dragoman").info("once")

    assert first.text == ""
    assert second.getvalue().count("once") == 1


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    with logging_to("info", "console") as plain:
        get_logger("dragoman").info("hello")
        terminal = Terminal()
        configure_logging("info", "console", terminal)
        get_logger("dragoman").info("hello")

    assert "\x1b[" not in plain.text
    assert "\x1b[" in terminal.getvalue()


def test_a_limited_warning_is_written_once_and_then_says_how_many_were_not() -> None:
    clock = ManualClock()
    with logging_to("info", "json") as output:
        log = get_logger("dragoman", clock)
        for _ in range(100):
            log.warning_limited("slow_path", key="stats", every_seconds=10, path="stats")
        log.warning_limited("slow_path", key="sweep", every_seconds=10, path="sweep")
        clock.advance(10)
        log.warning_limited("slow_path", key="stats", every_seconds=10, path="stats")
        clock.advance(10)
        log.warning_limited("slow_path", key="stats", every_seconds=10, path="stats")

    written = [(event["path"], event.get("suppressed")) for event in output.objects]
    assert written == [("stats", None), ("sweep", None), ("stats", 99), ("stats", None)]


def test_limited_warnings_under_endless_keys_keep_a_bounded_memory() -> None:
    with logging_to("info", "json"):
        log = get_logger("dragoman", ManualClock())
        for number in range(3_000):
            log.warning_limited("strange", key=str(number), every_seconds=10)

    assert len(log._limited) <= 1_000
