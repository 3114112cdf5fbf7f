# SPDX-License-Identifier: Apache-2.0
"""VNFs' own counters: what running engines tell over the DPDK telemetry socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.collect.collector import MetricValue, Targets
from headrace.engine.control import ControlLost, object_of
from headrace.errors import HeadraceError
from headrace.host.sockets import bytes_of
from headrace.spec.collect import Layer

_TIMEOUT_S, _LEAST_S = 1.0, 0.001  # of an answer
_READ_S = 10.0  # all that an engine tells at once
_ANSWER_MOST = 1 << 16  # bytes; DPDK's are 16 KiB at most
_VALUES_MOST = 1 << 16  # of an engine
_DEPTH_MOST = 16  # in an answer
_SHOWN = 80  # characters of a name in an error
_GAUGES = ("held", "used", "size", "cpu")


class Application:
    layer: Layer = "application"

    def __init__(self, targets: Targets) -> None:
        self._sockets = targets.telemetry

    def refusal(self) -> str | None:
        if not self._sockets:
            return "no engine with a telemetry socket is part of this measurement"
        return None

    def absent(self) -> dict[str, str]:
        return {str(s): "no such socket" for s in self._sockets if not s.exists()}

    def read(self) -> Iterator[MetricValue]:
        for path in self._sockets:
            try:
                with closing(Telemetry(path)) as telemetry:
                    yield from islice(_engine(path.parent.name, telemetry), _VALUES_MOST)
            except OSError:
                continue  # the engine has ended

    def close(self) -> None:
        return


class Telemetry:
    """DPDK's telemetry protocol, version 2: a greeting, then one JSON reply per request. The engine
    may have been taken over: what it answers is a stranger's."""

    def __init__(self, path: Path) -> None:
        self._until = time.monotonic() + _READ_S
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_TIMEOUT_S)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._answers = bytes_of(self._socket)
        try:
            self._object("")
        except (OSError, HeadraceError):
            self.close()
            raise

    def ask(self, request: str) -> Any:
        self._socket.send(request.encode())
        return self._object(request).get(request.partition(",")[0])

    def names(self, request: str) -> list[str]:
        """What there is of a kind, which is asked for one by one."""
        told = self.ask(request) or []
        if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
            raise ControlLost(f"engine: answer to {request!r} is no list of names")
        return told

    def _object(self, request: str) -> dict[str, Any]:
        left = self._until - time.monotonic()
        self._answers.settimeout(max(min(left, _TIMEOUT_S), _LEAST_S))
        answer = self._answers.recv(_ANSWER_MOST)
        if not answer or left <= 0:
            raise ConnectionError("no more answers")
        return object_of(request, answer)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._answers.close()


def _engine(name: str, telemetry: Telemetry) -> Iterator[MetricValue]:
    for what in ("segment", "link"):
        for item in telemetry.names(f"/headrace/{what}s"):
            yield from leaves(f"{name}/{item}", telemetry.ask(f"/headrace/{what},{item}"))


def leaves(place: str, value: Any, metric: str = "", depth: int = 0) -> Iterator[MetricValue]:
    """Every number below `value`, named by the last key on its way, placed by those before."""
    if isinstance(value, bool) or value is None:
        return
    if depth > _DEPTH_MOST:
        raise ControlLost(f"engine: what it tells of {place[:_SHOWN]!r} is nested too deeply")
    if isinstance(value, int | float):
        yield MetricValue(metric, place, value, "gauge" if metric in _GAUGES else "counter")
    elif isinstance(value, dict):
        for key, inner in value.items():
            below = f"{place}/{metric}" if metric else place
            yield from leaves(below, inner, str(key), depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(f"{place}.{number}", inner, metric, depth + 1)
