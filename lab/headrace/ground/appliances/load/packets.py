# SPDX-License-Identifier: Apache-2.0
"""headrace's own source and sink at both ends of a chain of containers: latency per packet.

One engine reads both ends, which are in one namespace, so that both stamps are of one clock. The
kernel of that namespace drops what comes to it besides: its source is an address of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from headrace.engine.clocks import of_workers
from headrace.engine.counters import difference
from headrace.engine.engine import Engine
from headrace.engine.plan_document import (
    Plan,
    PlanEngine,
    PlanInput,
    PlanLink,
    PlanSegment,
)
from headrace.engine.reading import Reading, StartedLoad, flow
from headrace.ground.appliances.addressing import TESTER, ContainerLayout, NodeInterface
from headrace.ground.appliances.deploy import RunningGraph
from headrace.ground.appliances.load.reported import Counted, Load
from headrace.host.programs import find_engine
from headrace.record.identity import Direction
from headrace.record.latency import latency
from headrace.spec.workload import Packets

_PORT = 5201  # what a firewall of the catalogue lets pass
_DRAIN_S = 0.2
_DEVICES = {
    # Blocks of 64 KiB, 512 frames: 2 MB a direction, and bursts of the kernel's are not lost.
    "af_packet": "net_af_packet{n},iface={name},blocksz=65536,framesz=2048,framecnt=512",
    "af_xdp": "net_af_xdp{n},iface={name}",
}


@dataclass(frozen=True)
class _Ends:
    direction: Direction = "forward"
    source: str = "source"
    sink: str = "sink"


_ENDS = _Ends()


class PacketsLoad:
    """A load that was started. Its engine ends with it, also when nobody waits for its end."""

    def __init__(
        self, deployed: RunningGraph, workload: Packets, load_pps: float, seconds: float
    ) -> None:
        lcore = deployed.tester_lcore
        plan = make_plan(deployed.layout, workload, lcore, f"{deployed.tag}-tester")
        enter = ("ip", "netns", "exec", f"{deployed.tag}-{TESTER}")
        self._undo = ExitStack()
        engine = self._undo.enter_context(Engine(find_engine(), plan, deployed.state, enter))
        try:
            self._run = StartedLoad(engine, (_ENDS,), load_pps, seconds, _DRAIN_S)
        except BaseException:
            self.close()
            raise

    def result(self) -> Load:
        with self._undo:
            self._run.wait()
            return _load(self._run.read())

    def close(self) -> None:
        self._undo.close()


def _load(reading: Reading) -> Load:
    """What is not stamped (ARP, a server's advertisements) is no packet of the source's."""
    source, sink = reading.after.source(_ENDS.source), reading.after.sink(_ENDS.sink)
    one = flow(reading, _ENDS)
    counters = difference(reading.before, reading.after, None)
    return Load(
        duration_s=source.duration_ns / 1e9,
        bytes=sink.own.bytes,
        loss_ratio=one.loss_ratio,
        latency=latency(sink.latency),
        packets=Counted(
            one.intended, one.sent, one.received, sink.reordered, sink.duplicated,
            sink.latency.hdr, source.behind_max_ns / 1e9, sink.undecided,
            tuple(of_workers(counters.workers, counters.tsc_hz, reading.waited_ns,
                             reading.watched_s, reading.read_s)),
        ),
    )  # fmt: skip


def make_plan(layout: ContainerLayout, workload: Packets, lcore: int, prefix: str) -> Plan:
    """Source -> the interface at the clients' end; the one at the servers' end -> sink."""
    tester = layout.of_kind(TESTER)[0]
    down, up = tester.interface("down"), tester.interface("up")
    source = {
        "frame_bytes": list(workload.frame[0].sizes),
        "flows": workload.flows.count,
        "vary": ["src_port"],
        "src_ip": down.address,
        "dst_ip": up.address,
        "dst_port": _PORT,
        "src_mac": down.mac,
        "dst_macs": [hop.mac for hop in layout.first_hops or (up,)],
    }
    near, far = (PlanInput(link=a, to=f"link:{b}", direction="forward")
                 for a, b in (("source", "near"), ("far", "sink")))  # fmt: skip
    return Plan(
        engine=PlanEngine(hugepages=False, memory_mb=256, file_prefix=prefix, mbufs=16383,
                          mbuf_data_bytes=2176),
        links={
            "source": PlanLink(type="source", params=source),
            "near": _device(0, down, workload),
            "far": _device(1, up, workload),
            "sink": PlanLink(type="sink"),
        },
        nfs={},
        segments=(
            PlanSegment(name="generator", cpus=(lcore,), inputs=(near,)),
            PlanSegment(name="measure", cpus=(lcore,), inputs=(far,)),
        ),
    )  # fmt: skip


def _device(number: int, interface: NodeInterface, workload: Packets) -> PlanLink:
    text = _DEVICES[workload.link].format(n=number, name=interface.device)
    return PlanLink(type="port", params={"devargs": text})
