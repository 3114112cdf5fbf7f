# SPDX-License-Identifier: Apache-2.0
"""A VNF as a process: the same engine program, in a session and, where there may be one, a control
group of its own, that comes and goes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.hosted.parts import Vnf
from headrace.ground.hosted.vnf import ChildVnf, last_words
from headrace.host.cgroups import Cgroup
from headrace.host.numa import started_near
from headrace.host.processes import ended_first
from headrace.host.state import dpdk_folder, dpdk_in
from headrace.host.tail import tail
from headrace.host.tree import remove_tree

_QUIT_S = 10.0


class VnfProcess(ChildVnf):
    def __init__(
        self,
        binary: Path,
        vnf: Vnf,
        run: Path,
        prefix: str,
        group: Cgroup | None,
        enter: Sequence[str] = (),
    ) -> None:
        """`enter`: a command that starts another in its place, such as `ip netns exec NAME`."""
        super().__init__(vnf, run, prefix, group)
        self._binary, self._enter = binary, enter
        self._stderr = self.folder / "engine.stderr"

    def start(self) -> None:
        self._clear_sockets()
        command = [*self._enter, str(self._binary), "--plan", str(self._write_plan())]
        command += ["--control", str(self._socket), "--with-parent"]
        if self._group is not None:
            command = self._group.enter(command)
        with self._stderr.open("wb") as stderr, started_near(self.vnf.lcores):
            # A session of its own: autogroup then gives each VNF the same share of a CPU.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True,
                env=dpdk_in(self._run),
            )  # fmt: skip
        ended_first(self._process.pid)

    def died(self) -> HeadraceError:
        words = last_words(tail(self._stderr))
        return HeadraceError(f"{self.vnf.name}: its engine died ({self._how()}): {words}")

    def kill(self) -> None:
        """What DPDK leaves behind is removed."""
        self._kill()
        self._disconnect()
        remove_tree(dpdk_folder(self._run, self._prefix))

    def close(self) -> None:
        self._wait(_QUIT_S if self.control is not None else 0)
        self._terminate(_QUIT_S)
        self.kill()
