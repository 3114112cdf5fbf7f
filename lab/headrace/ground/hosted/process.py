# SPDX-License-Identifier: Apache-2.0
"""A VNF as a process: the same engine program, in a session and, where there may be one, a control
group of its own, that comes and goes."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.hosted.parts import Vnf
from headrace.ground.hosted.vnf import HostedVnf, how_ended, last_words
from headrace.host.cgroups import Cgroup
from headrace.host.numa import started_near
from headrace.host.state import dpdk_folder, dpdk_in
from headrace.host.tail import tail
from headrace.host.tree import remove_tree

_QUIT_S = 10.0


class VnfProcess(HostedVnf):
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
        super().__init__(vnf, run, prefix)
        self._binary, self._group, self._enter = binary, group, enter
        self._stderr = self.folder / "engine.stderr"
        self._process: subprocess.Popen[bytes] | None = None

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

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def died(self) -> HeadraceError:
        how = how_ended(self._process, self._group)
        words = last_words(tail(self._stderr))
        return HeadraceError(f"{self.vnf.name}: its engine died ({how}): {words}")

    def kill(self) -> None:
        """What DPDK leaves behind is removed."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        self._disconnect()
        remove_tree(dpdk_folder(self._run, self._prefix))

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S if self.control is not None else 0)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S)
        self.kill()
