# SPDX-License-Identifier: Apache-2.0
"""What is asked of a running engine, wherever its process is: here, or on another server."""

from __future__ import annotations

import abc
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from headrace.engine.control import Control, ControlLost
from headrace.engine.counts import EngineCounts, EngineInfo
from headrace.errors import HeadraceError
from headrace.host.scheduling import Snapshot


class RunningEngine(abc.ABC):
    """Used as a context: leaving it ends the engine, whatever happened."""

    def __init__(self) -> None:
        # Whoever looks on asks between the requests of the thread that measures.
        self.turn = threading.RLock()
        self.control: Control | None = None
        self.address: dict[str, str] = {}  # to whom requests are passed on by who gets them
        self.shielded = False

    @property
    @abc.abstractmethod
    def pid(self) -> int | None:
        """Its process on this machine, if it is here."""

    @property
    def pids(self) -> dict[str, int]:
        """Processes on this machine beside its own that carry packets."""
        return {}

    @abc.abstractmethod
    def measuring(self) -> AbstractContextManager[None]:
        """Shielded for a trial."""

    @abc.abstractmethod
    def scheduled(self) -> Snapshot:
        """What the kernel says of its pollers."""

    @abc.abstractmethod
    def scheduled_beside(self) -> Snapshot | None:
        """The same of those that carry packets beside it; None: there are none."""

    @abc.abstractmethod
    def lost(self, why: ControlLost) -> HeadraceError:
        """What to say when it does not answer."""

    @abc.abstractmethod
    def close(self) -> None: ...

    def request(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        """A request; if the engine died of it or before, its last words are the error."""
        with self._answering() as control:
            return control.request(cmd, **self.address, **arguments)

    def relayed(self, cmd: str, **arguments: Any) -> bytes:
        """The answer as it came: a line, for whoever asked us to ask."""
        with self._answering() as control:
            control.send(cmd, **self.address, **arguments)
            return control.line(cmd)

    def read(self) -> EngineCounts:
        with self._answering() as control:
            control.send("read", **self.address)
            return control.receive_as("read", EngineCounts)

    def info(self) -> EngineInfo:
        with self._answering() as control:
            control.send("info", **self.address)
            return control.receive_as("info", EngineInfo)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[Control]:
        assert self.control is not None
        try:
            with self.turn:
                yield self.control
        except ControlLost as why:
            raise self.lost(why) from None

    def exposed(self) -> Mapping[str, str]:
        """Its counters in Prometheus' text form, and those of engines that belong to it by name."""
        return {"": self.request("prometheus")["text"]}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


def looks(engine: RunningEngine, every_s: float) -> Iterator[EngineCounts]:
    """Reads it again and again. Pollers are shielded between looks, and not while the lab looks: it
    would have next to no CPU where they have all of them."""
    while True:
        with engine.measuring():
            time.sleep(every_s)
        yield engine.read()
