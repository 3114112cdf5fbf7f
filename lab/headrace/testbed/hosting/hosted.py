# SPDX-License-Identifier: Apache-2.0
"""The host's engine and its VNFs, seen as one engine: what is read of them is one reading."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.testbed.control import ControlLost
from headrace.testbed.engine import SHARE_IDLE, SHARE_MEASURING, Engine, set_share
from headrace.testbed.hosting.layout import RUN, Hosted
from headrace.testbed.hosting.process import VnfProcess
from headrace.testbed.state import RunState, dpdk_prefix

Json = dict[str, Any]
_LINKS_UP_S = 60.0


class HostedEngine(Engine):
    """Leaving it ends the VNFs, then the host."""

    def __init__(self, binary: Path, plan: Json, hosted: Hosted, state: RunState) -> None:
        self.vnfs: list[VnfProcess] = []
        self._begun = 0
        ready = json.loads(json.dumps(plan).replace(RUN, str(state.path)))
        super().__init__(binary, ready, state)
        prefix = dpdk_prefix(state.path)
        try:
            for vnf in hosted.vnfs:
                self.vnfs.append(VnfProcess(binary, vnf, state.path, prefix))
                self.vnfs[-1].start()
            for one in self.vnfs:
                one.connect()
            self.wait_up()
        except BaseException:
            self.close()
            raise

    def wait_up(self) -> None:
        deadline = time.monotonic() + _LINKS_UP_S
        while True:
            links = self.host_read()["links"]
            down = [v.vnf.name for v in self.vnfs if not links[v.vnf.link]["up"]]
            if not down:
                return
            if time.monotonic() > deadline:
                raise HeadraceError(f"links of {', '.join(down)} not up after {_LINKS_UP_S:g} s")
            time.sleep(0.02)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """All alike: a VNF with a smaller share than its host would be the host's bottleneck."""
        for vnf in self.vnfs:
            set_share(vnf.pid, SHARE_MEASURING)
        try:
            with super().measuring():
                yield
        finally:
            for vnf in self.vnfs:
                if vnf.alive:
                    set_share(vnf.pid, SHARE_IDLE)

    def host_read(self) -> Json:
        """The host alone: VNFs may be dead."""
        return super().request("read")

    def request(self, cmd: str, **arguments: Any) -> Json:
        reply = super().request(cmd, **arguments)
        return self._merged(reply) if cmd == "read" and self.vnfs else reply

    def _merged(self, host: Json) -> Json:
        """Asked all at once: while sixty pollers share a CPU each answer takes its time."""
        alive = [vnf for vnf in self.vnfs if vnf.control is not None]
        try:
            for vnf in alive:
                assert vnf.control is not None
                vnf.control.send("read")
            readings = [(vnf, vnf.read()) for vnf in alive]
        except ControlLost:
            time.sleep(0.2)
            for vnf in alive:
                if not vnf.alive:
                    raise vnf.died() from None
            raise
        for vnf, reading in readings:
            host["segments"] |= reading["segments"]
            host["links"][f"{vnf.vnf.name}:vf"] = reading["links"]["vf"]
            for cpu, worker in reading["workers"].items():
                _add_worker(host["workers"], cpu, worker)
        return host

    def close(self) -> None:
        for vnf in self.vnfs:
            vnf.ask_to_quit()
        for vnf in self.vnfs:
            vnf.close()
        super().close()


def _add_worker(workers: Json, cpu: str, worker: Json) -> None:
    """VNFs that share a CPU are one worker of it: busy together, present as long as the longest."""
    there = workers.setdefault(cpu, {"ref_cycles": 0, "ops_cycles": 0, "segments": []})
    there["ref_cycles"] = max(there["ref_cycles"], worker["ref_cycles"])
    there["ops_cycles"] += worker["ops_cycles"]
    there["segments"] = [*there["segments"], *worker["segments"]]
