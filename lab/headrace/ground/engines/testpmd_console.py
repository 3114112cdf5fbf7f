# SPDX-License-Identifier: Apache-2.0
"""testpmd's command line, and what its `show fwd stats all` prints."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

_BEGUN = "Read CLI commands from"
_ANSWER_S, _LOOK_S = 10.0, 0.005
_PORT = re.compile(
    r"Forward statistics for port (\d+) .*?"
    r"RX-packets: (\d+) .*?TX-packets: (\d+) +TX-dropped: (\d+)",
    re.DOTALL,
)
_CYCLES = re.compile(r"total cycles=(\d+)")
# A line that only the answer to the question before it can be followed by.
_END = "show config rxtx"
_ENDED = "nb forwarding cores="


@dataclass(frozen=True)
class TestpmdConsole:
    """`ports`: the names by which its ports are counted."""

    fifo: Path
    log: Path
    ports: Sequence[str]

    def forwards(self) -> bool:
        return _BEGUN in self.log.read_text(errors="replace")

    def counters(self) -> dict[str, int]:
        """Packets at each port since it began, and TSC cycles of all its lcores in which packets
        were forwarded."""
        since = self.log.stat().st_size
        self._write(f"show fwd stats all\n{_END}\n")
        deadline = time.monotonic() + _ANSWER_S
        while _ENDED not in (text := self._since(since)):
            if time.monotonic() > deadline:
                raise HeadraceError(
                    f"testpmd: no answer to `show fwd stats all` in {_ANSWER_S:g} s"
                )
            time.sleep(_LOOK_S)
        return statistics(text, self.ports)

    def _since(self, at: int) -> str:
        with self.log.open("rb") as file:
            file.seek(at)
            return file.read().decode(errors="replace")

    def _write(self, text: str) -> None:
        try:
            fifo = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            raise HeadraceError("testpmd: nobody reads its commands any more") from None
        try:
            os.write(fifo, text.encode())
        finally:
            os.close(fifo)


def statistics(text: str, ports: Sequence[str]) -> dict[str, int]:
    """testpmd says nothing of a port that forwarded nothing."""
    counts = {f"{name}/{what}": 0 for name in ports for what in ("rx", "tx", "tx-dropped")}
    for number, rx, tx, dropped in _PORT.findall(text):
        name = ports[int(number)]
        counts |= {f"{name}/rx": int(rx), f"{name}/tx": int(tx), f"{name}/tx-dropped": int(dropped)}
    cycles = _CYCLES.search(text)
    return counts | {"cycles": int(cycles[1]) if cycles else 0}
