# SPDX-License-Identifier: Apache-2.0
"""Connections to the server: so many, and none that asks nothing for long.

Uvicorn lets a connection that has asked nothing yet stay for good, and its own bound has the next
reader refused rather than one of those go. Whoever reaches the port could take all descriptors of
the process, which measures.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128
IDLE_S = 10.0


class Connection(H11Protocol):  # type: ignore[misc]
    """Where there are too many, the oldest one that asks nothing gives way; without one, the
    oldest, which a browser makes anew."""

    _since: float
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._look_again()
        others = [one for one in self.connections if one is not self and one.open]
        if len(others) >= MOST:
            min(others, key=lambda one: (not one.idle, one._since)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
        super().connection_lost(exc)

    @property
    def open(self) -> bool:
        return not self.transport.is_closing()

    @property
    def idle(self) -> bool:
        answered = self.cycle is None or bool(self.cycle.response_complete)
        return answered and not self.transport.get_write_buffer_size()

    def _look_again(self) -> None:
        self._clock = self.loop.call_later(IDLE_S, self._late)

    def _late(self) -> None:
        """What was begun to be asked counts for nothing: it may come a byte at a time."""
        if self.idle:
            self.transport.abort()
        else:
            self._look_again()
