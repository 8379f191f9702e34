"""Logs, traces and metrics, set up the same way in every process.

Logs are structlog events, one JSON object a line (or coloured lines on a terminal), and the standard library's loggers
of our dependencies come out in the same shape. Traces use the OpenTelemetry SDK without an exporter: every request and
every event carries a W3C `traceparent`, so that one trace id runs from the HTTP call through all events and log lines.
Metrics are Prometheus registries, one a service; `bounded` keeps what clients send out of label values.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TextIO

import structlog
from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

LogFormat = Literal["json", "console"]
OTHER: Final = "other"
_QUIET_LIBRARIES: Final = ("uvicorn.error", "uvicorn.access", "nats", "asyncio")
_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def configure_logging(log_format: LogFormat = "json", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send structlog and the standard library's loggers to one stream in one format; call once, at process start."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_trace_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_renderers(log_format, handler.stream))
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("faststream").setLevel(
        logging.CRITICAL
    )  # a pull that timed out is an error with a traceback there
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))


def _renderers(log_format: LogFormat, stream: TextIO) -> list[structlog.typing.Processor]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if log_format == "console":
        # A traceback with local variables would print tokens and passwords.
        plain = structlog.dev.plain_traceback
        return [strip, structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    return [strip, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]


def _add_trace_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace"] = trace.format_trace_id(context.trace_id)
    return event


class Tracing:
    """The spans of one service."""

    def __init__(self, service: str) -> None:
        resource = Resource({SERVICE_NAME: f"trainmaster-{service}"})
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer = self.provider.get_tracer("trainmaster")

    @contextmanager
    def continued(self, traceparent: str | None, name: str) -> Iterator[None]:
        """Work inside a span that continues the given trace, or starts one where none or nonsense is given."""
        carrier = {"traceparent": traceparent} if traceparent and is_traceparent(traceparent) else {}
        with self._tracer.start_as_current_span(name, _PROPAGATOR.extract(carrier)):
            yield


def current_traceparent() -> str | None:
    """The `traceparent` of the present span for the next event or request; None outside of any."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get("traceparent")


def is_traceparent(text: str) -> bool:
    """Whether the text has the shape of a W3C trace context, version 00."""
    return _TRACEPARENT.fullmatch(text) is not None


def bounded(value: str, allowed: Collection[str]) -> str:
    """The value where it is one of those allowed, else `other`: a label value that cannot grow without bound."""
    return value if value in allowed else OTHER
