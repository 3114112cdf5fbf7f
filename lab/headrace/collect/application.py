# SPDX-License-Identifier: Apache-2.0
"""VNFs' own counters: what running engines tell over the DPDK telemetry socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from headrace.collect.collector import MetricValue, Targets
from headrace.spec.collect import Layer

_TIMEOUT_S = 1.0
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
                    yield from _engine(path.parent.name, telemetry)
            except (OSError, ValueError):
                continue  # the engine has ended

    def close(self) -> None:
        return


class Telemetry:
    """DPDK's telemetry protocol, version 2: a greeting, then one JSON reply per request."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_TIMEOUT_S)
        try:
            self._socket.connect(str(path))
            self._longest = int(json.loads(self._socket.recv(1024))["max_output_len"])
        except (OSError, ValueError, KeyError):
            self._socket.close()
            raise

    def ask(self, request: str) -> Any:
        self._socket.send(request.encode())
        reply = json.loads(self._socket.recv(self._longest))
        return reply.get(request.partition(",")[0])

    def close(self) -> None:
        self._socket.close()


def _engine(name: str, telemetry: Telemetry) -> Iterator[MetricValue]:
    for what in ("segment", "link"):
        for item in telemetry.ask(f"/headrace/{what}s") or ():
            yield from leaves(f"{name}/{item}", telemetry.ask(f"/headrace/{what},{item}"))


def leaves(place: str, value: Any, metric: str = "") -> Iterator[MetricValue]:
    """Every number below `value`, named by the last key on its way, placed by those before."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield MetricValue(metric, place, value, "gauge" if metric in _GAUGES else "counter")
    elif isinstance(value, dict):
        for key, inner in value.items():
            below = f"{place}/{metric}" if metric else place
            yield from leaves(below, inner, str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(f"{place}.{number}", inner, metric)
