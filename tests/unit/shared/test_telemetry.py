from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from shared.telemetry import Tracing, bounded, configure_logging, current_traceparent, is_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    handlers, level = logging.root.handlers[:], logging.root.level
    stream = io.StringIO()
    yield stream
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


def lines(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_level_and_utc_time(output: io.StringIO) -> None:
    configure_logging(stream=output)
    structlog.get_logger(service="logs").info("chunk_kept", job="tj-1", text="zwei\nZeilen é")
    (entry,) = lines(output)
    assert entry | {"time": ""} == {
        "event": "chunk_kept",
        "job": "tj-1",
        "level": "info",
        "service": "logs",
        "text": "zwei\nZeilen é",
        "time": "",
    }
    assert str(entry["time"]).endswith("Z")


def test_libraries_come_out_in_the_same_shape_and_only_their_warnings(output: io.StringIO) -> None:
    configure_logging(stream=output)
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("nats").warning("slow %s", "consumer")
    assert [(entry["event"], entry["level"]) for entry in lines(output)] == [("slow consumer", "warning")]


def test_levels_below_the_chosen_one_are_left_out(output: io.StringIO) -> None:
    configure_logging(level="WARNING", stream=output)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [entry["event"] for entry in lines(output)] == ["loud"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(output: io.StringIO, log_format: str) -> None:
    configure_logging(log_format, stream=output)  # type: ignore[arg-type]

    def fails(password: str) -> None:
        raise RuntimeError("no " + "luck")

    try:
        fails("hunter{}".format(2))  # noqa: UP032  # the source line must not hold the password
    except RuntimeError:
        structlog.get_logger().exception("failed")
    assert "RuntimeError: no luck" in output.getvalue()
    assert "hunter2" not in output.getvalue()


def test_log_lines_carry_the_trace_that_they_belong_to(output: io.StringIO) -> None:
    configure_logging(stream=output)
    with Tracing("logs").continued(PARENT, "work"):
        structlog.get_logger().info("inside")
    structlog.get_logger().info("outside")
    assert [entry.get("trace") for entry in lines(output)] == [TRACE, None]


def test_a_trace_is_continued_with_a_span_of_our_own() -> None:
    with Tracing("logs").continued(PARENT, "work"):
        here = current_traceparent()
    assert here is not None
    assert here.split("-")[1] == TRACE
    assert here != PARENT


@pytest.mark.parametrize("parent", [None, "", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", PARENT.upper()])
def test_without_a_usable_trace_a_new_one_begins(parent: str | None) -> None:
    with Tracing("logs").continued(parent, "work"):
        here = current_traceparent()
    assert here is not None
    assert is_traceparent(here)
    assert TRACE not in here


def test_there_is_no_trace_outside_of_any_work() -> None:
    assert current_traceparent() is None


def test_a_label_value_is_one_of_those_allowed_or_other() -> None:
    assert [bounded(value, ("GET", "PUT")) for value in ("GET", "TRACE")] == ["GET", "other"]
