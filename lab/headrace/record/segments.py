# SPDX-License-Identifier: Apache-2.0
"""How a chain was cut, what a packet waits for in it, and what bounds it that is no CPU."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.record.frozen import Record


class Segment(Record):
    """How the chain was cut. `role` tells the tester's own segments from the chain's."""

    name: str
    cpus: tuple[int, ...]
    nfs: tuple[str, ...] = ()  # in the chain's order
    role: Literal["chain", "generator", "sink"] = "chain"
    shares_cpu_with: tuple[str, ...] = ()
    hosting: str = "inline"


class Anatomy(Record):
    """Mean time of a packet in each part of a hosted chain (Wang et al. 2016, Toward
    High-Performance and Scalable Network Functions Virtualization, figure 8); they add up to the
    mean latency. Queueing is in front of a VNF that runs; the scheduler's part is what packets
    waited while it did not. The switch's part is what the others leave, its own queues included."""

    generator_ns: NonNegativeFloat  # the tester alone: its median in a direct loop, or what is left
    switch_ns: NonNegativeFloat
    queue_ns: float
    scheduler_ns: NonNegativeFloat
    vnf_ns: NonNegativeFloat
    of_which_back_ns: NonNegativeFloat  # of the switch's: waiting for it on the way back from VNFs
    over_ns: NonNegativeFloat = 0.0  # by which what was measured exceeded the mean; scaled to it
    undivided: str = ""  # the part that could not be told from another, and where it is


class CpuShare(Record):
    """The CPU time that a hosted VNF had, by the kernel's account of its control group."""

    vnf: str
    weight: NonNegativeInt | None = None  # of its group at the end, by default 100; None: not told
    cpus: NonNegativeFloat  # CPU time in a second of the trial and its last packets
    cost_ns: NonNegativeFloat | None = None  # for each packet that it took; None: it took none


LimitKind = Literal["switch", "uplink", "rate-cap", "port", "nic-rate"]


class Limit(Record):
    """What bounds a chain and is no CPU. Of a hosted one: the way between the NIC and its host
    (`switch`), its wire (`uplink`), a VNF's licence (`rate-cap`). Of a described server with a
    tester outside: its ports (`port`), and the packets/s that its NICs take (`nic-rate`, as Gbit/s
    of these frames).

    `used` is the share that frames took of it while packets were sent, layer 1, of the way that
    had more; of a licence the share that the VNF's frames asked for. `crossings`: how often it was
    charged for each packet that arrived, that way.
    """

    kind: LimitKind
    place: str  # the NIC, the VNF, or the server
    gbps: float
    used: NonNegativeFloat
    crossings: NonNegativeFloat
    dropped: NonNegativeInt = 0  # frames that were too many for it
