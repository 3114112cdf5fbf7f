# SPDX-License-Identifier: Apache-2.0
"""NfvInsight's 13 metrics on five layers, of one window of samples: a trial's, or a whole
deployment's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.collect import cores
from headrace.collect.samples import Samples, Window
from headrace.collect.stack.result import StackTrace
from headrace.spec.collect import Layer

_NOT_SAMPLED = "this layer was not sampled"


@dataclass(frozen=True)
class LayerFigure:
    """One metric. Without a value, `absent` says why."""

    layer: Layer
    name: str
    value: float | None
    unit: str
    detail: str = ""  # by place, the largest first
    absent: str = ""


@dataclass(frozen=True)
class Goodput:
    """What the load generator says."""

    gbps: float
    latency_s: float | None  # mean of a request's
    latency_absent: str = "this workload has no requests to time"


@dataclass(frozen=True)
class Windows:
    virtualization: Window
    virtual_switch: Window
    os: Window
    hardware: Window
    refused: dict[str, str]
    absent: dict[str, dict[str, str]]

    @staticmethod
    def of(folder: Path, begin_ns: int = 0, end_ns: int | None = None) -> Windows:
        return Windows.within(Samples(folder), begin_ns, end_ns)

    @staticmethod
    def within(samples: Samples, begin_ns: int = 0, end_ns: int | None = None) -> Windows:
        return Windows(
            virtualization=samples.window("virtualization", begin_ns, end_ns),
            virtual_switch=samples.window("virtual-switch", begin_ns, end_ns),
            os=samples.window("os", begin_ns, end_ns),
            hardware=samples.window("hardware", begin_ns, end_ns),
            refused=samples.refused,
            absent={layer: facts.absent for layer, facts in samples.layers.items()},
        )

    def why(self, layer: str, metric: str) -> str:
        if layer in self.refused:
            return self.refused[layer]
        if layer not in self.absent:
            return _NOT_SAMPLED
        return self.absent[layer].get(metric, "nothing of it was read")


def figures(w: Windows, goodput: Goodput | None, stack: StackTrace | None) -> list[LayerFigure]:
    """Figures in NfvInsight's order: application, virtualization, virtual switch, operating system,
    hardware."""
    return [
        *_application(goodput),
        *_virtualization(w),
        *_switch(w),
        *_os(w),
        _stack_latency(stack),
        *_hardware(w),
    ]


def _application(g: Goodput | None) -> list[LayerFigure]:
    if g is None:
        none = "no load generator of an application ran"
        return [
            LayerFigure("application", "request latency", None, "ms", absent=none),
            LayerFigure("application", "bandwidth", None, "Gbit/s", absent=none),
        ]
    late = None if g.latency_s is None else g.latency_s * 1e3
    return [
        LayerFigure("application", "request latency", late, "ms", detail="mean",
               absent="" if late is not None else g.latency_absent),
        LayerFigure("application", "bandwidth", g.gbps, "Gbit/s"),
    ]  # fmt: skip


def _by_place(values: dict[str, float], text: Callable[[float], str], most: int = 6) -> str:
    first = sorted(values.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{place.rpartition('/')[2] or place} {text(v)}" for place, v in first)


def _summed(
    layer: Layer, name: str, unit: str, values: dict[str, float], scale: float, why: str
) -> LayerFigure:
    if not values:
        return LayerFigure(layer, name, None, unit, absent=why)
    scaled = {p: v * scale for p, v in values.items()}
    return LayerFigure(
        layer, name, sum(scaled.values()), unit, _by_place(scaled, lambda v: f"{v:.3g}")
    )


def _virtualization(w: Windows) -> list[LayerFigure]:
    v = w.virtualization
    why = w.why("virtualization", "cgroup_cpu_ns")
    received = {
        p: r for p, r in v.rate("rx_bytes").items() if not p.endswith("/lo")
    }  # what one device sends another receives: counted once
    return [
        _summed("virtualization", "CPU", "CPUs", v.rate("cgroup_cpu_ns"), 1e-9, why),
        _summed("virtualization", "memory", "MB", v.now("cgroup_memory_bytes"), 1e-6, why),
        _summed("virtualization", "virtual devices' bandwidth", "Gbit/s",
                _per_container(received), 8e-9, why),
    ]  # fmt: skip


def _per_container(rates: dict[str, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for place, rate in rates.items():
        name = place.partition("/")[0]
        sums[name] = sums.get(name, 0.0) + rate
    return sums


def _switch(w: Windows) -> list[LayerFigure]:
    s = w.virtual_switch
    flows = s.now("ovs_flows") or s.now("bridge_fdb_entries")
    entries = _summed(
        "virtual-switch", "flow entries", "", flows, 1.0,
        w.why("virtual-switch", "bridge_fdb_entries"),
    )  # fmt: skip
    own = _total(s.rate("process_user_s"), s.rate("process_system_s"))
    if own:
        return [entries, _summed("virtual-switch", "CPU", "CPUs", own, 1.0, "")]
    if not s.now("bridge_fdb_entries"):
        why = w.why("virtual-switch", "process_user_s")
        return [entries, LayerFigure("virtual-switch", "CPU", None, "CPUs", absent=why)]
    # A bridge of the kernel's has no process: it runs in the softirqs that bring it packets.
    softirq = sum(cores.softirq(w.hardware).values())
    at_most = LayerFigure("virtual-switch", "CPU", softirq, "CPUs", "at most: it runs in softirqs")
    return [entries, at_most]


def _total(*parts: dict[str, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for part in parts:
        for place, value in part.items():
            sums[place] = sums.get(place, 0.0) + value
    return sums


def _os(w: Windows) -> list[LayerFigure]:
    o, why = w.os, w.why("os", "system_calls")
    softirq = cores.softirq(w.hardware)
    return [
        _summed("os", "system calls", "/s", o.rate("system_calls"), 1.0, why),
        _summed("os", "context switches", "/s", o.rate("context_switches"), 1.0, why),
        _summed("os", "softirq time", "CPUs", softirq, 1.0, w.why("hardware", "cpu_softirq_s")),
    ]


def _stack_latency(stack: StackTrace | None) -> LayerFigure:
    if stack is None:
        return LayerFigure("os", "stack latency", None, "µs", absent="no packets were traced")
    ways = [e for e in stack.end_to_end if e.count]
    count = sum(e.count for e in ways)
    if not count:
        return LayerFigure("os", "stack latency", None, "µs", absent="no traced packet's way ended")
    mean = sum(e.sum_ns for e in ways) / count / 1e3
    detail = f"mean of {count} packets; lost events: {stack.lost_total}"
    if stack.whole_way is not None and stack.whole_way.begun:
        detail = f"{detail}. {stack.whole_way.sentences()[1]}"
    return LayerFigure("os", "stack latency", mean, "µs", detail)


def _hardware(w: Windows) -> list[LayerFigure]:
    h = w.hardware
    cycles, instructions = h.total("cycles"), h.total("instructions")
    why = w.why("hardware", "ipc")
    ipc = instructions / cycles if cycles else None
    return [
        _summed("hardware", "CPU time", "CPUs", cores.busy(h), 1.0,
                w.why("hardware", "cpu_idle_s")),
        LayerFigure("hardware", "IPC", ipc, "", absent="" if ipc is not None else why),
        _summed("hardware", "cache misses", "/s", h.rate("cache_misses"), 1.0,
                w.why("hardware", "cache_misses")),
    ]  # fmt: skip
