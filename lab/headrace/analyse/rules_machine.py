# SPDX-License-Identifier: Apache-2.0
"""Rules on CPU: quotas, waiting for a core, a core without time left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.units import percent
from headrace.collect import cores

FULL_THREAD = 0.90  # of the time; the rest is what it waited for others
THROTTLED = 0.05  # of the time
WAITING = 0.20  # of the time, for a core
CLIENT = "client"  # of a chain of containers: a reserved name
BUSY = 0.95
STOLEN = 0.05


class _UsedUp(NamedTuple):
    name: str
    share: float  # of the periods in which it was stopped, or of what it may have
    quota_cpus: float
    used_cpus: float
    text: str
    remedy: str


def cpu_quota(e: Evidence) -> Iterator[Diagnosis]:
    for one in (*_throttled(e), *_forwarded(e)):
        yield Diagnosis(
            rule="cpu-quota",
            weight=Weight.SHORTAGE,
            share=one.share,
            place=one.name,
            text=one.text,
            evidence=(f"it may use {one.quota_cpus:.3g} CPUs and used {one.used_cpus:.3g}",),
            remedy=one.remedy,
        )


def _throttled(e: Evidence) -> Iterator[_UsedUp]:
    quota = e.virtualization.now("cgroup_cpu_quota_cpus")
    used = e.virtualization.rate("cgroup_cpu_ns")
    periods = e.virtualization.change("cgroup_periods")
    for name, count in e.virtualization.change("cgroup_throttled_periods").items():
        share = count / periods[name] if periods.get(name) else 0.0
        if share >= THROTTLED:
            text = (
                f"{name} used up its CPU quota in {percent(share, 2)} of the periods and was "
                "stopped"
            )
            remedy = "raise the quota (cpu.max, cpu.cfs_quota_us, --cpus), or pin to cores instead"
            yield _UsedUp(name, share, quota.get(name, 0), used.get(name, 0) / 1e9, text, remedy)


def _forwarded(e: Evidence) -> Iterator[_UsedUp]:
    """A VNF for which the kernel forwards, in threads that are held to the VNF's quota. A trial's
    own figure counts where there is one: the samples have its beginning and its end in them."""
    quota = e.virtualization.now("forwarding_quota_cpus")
    for name, ns in e.virtualization.rate("forwarding_cpu_ns").items():
        trials = [r.application.quota.get(name, 0.0) for r in e.results if r.application]
        share = max([ns / 1e9 / quota[name], *trials])
        if share >= FULL_THREAD:
            text = f"the kernel's forwarding for {name} used up the CPU that it may have"
            remedy = (
                f"raise its quota (`vnfs.{name.rstrip('0123456789')}.cpus`), or less work in it "
                "for each packet"
            )
            # Nothing is left of what it may have: a limit that is reached.
            yield _UsedUp(name, 1.0, quota[name], share * quota[name], text, remedy)


def waiting_for_a_core(e: Evidence) -> Iterator[Diagnosis]:
    for name, delay in e.os.rate("run_queue_delay_ns").items():
        share = delay / 1e9
        if share >= WAITING:
            switches = e.os.rate("process_nonvoluntary_ctxt_switches").get(name, 0)
            yield Diagnosis(
                rule="waiting-for-a-core",
                weight=Weight.SHORTAGE,
                share=min(1.0, share),
                place=name,
                text=f"{name} was ready to run but had no core for {percent(share, 2)} of the time",
                evidence=(f"it was put aside {switches:.0f} times/s",),
                remedy="give it a core of its own, or fewer neighbours",
            )


def busy_thread(e: Evidence) -> Iterator[Diagnosis]:
    """A thread that always ran is the limit of what is around it, however many cores are idle."""
    polls = any(place.startswith("cpu") for place in e.virtual_switch.now("ovs_pmd_idle_cycles"))
    seen = e.virtualization.rate("busiest_thread_ns")
    if not polls:
        seen |= e.virtual_switch.rate("busiest_thread_ns")
    for name, ns in seen.items():
        share = ns / 1e9
        if share < FULL_THREAD:
            continue
        all_ = e.virtualization.rate("cgroup_cpu_ns").get(name)
        client = name == CLIENT
        yield Diagnosis(
            rule="busy-thread",
            weight=Weight.TESTER if client else Weight.SHORTAGE,
            share=min(1.0, share),
            place=name,
            text=f"a thread of {name} ran {percent(share, 2)} of the time: it cannot do more, "
            "unless it only polls"
            + (". The clients are the limit, not the chain" if client else ""),
            evidence=(f"all threads of {name} used {all_ / 1e9:.2f} CPUs",) if all_ else (),
            remedy="more threads or instances of it (`scale_out`), or less work for each packet",
        )


def machine_full(e: Evidence) -> Iterator[Diagnosis]:
    """Where everything of a chain of containers shares the same CPUs, and none of them is idle."""
    if not any(r.application for r in e.results):
        return  # an engine's lcores poll
    by_cpu = cores.busy(e.hardware)
    if not by_cpu or (busy := sum(by_cpu.values()) / len(by_cpu)) < BUSY:
        return
    used, softirq = _used(e)
    others = max(0.0, sum(by_cpu.values()) - sum(used.values()) - softirq)
    most = sorted(used, key=lambda name: -used[name])
    named = [f"{name} {used[name]:.2f}" for name in most if used[name] >= 0.01]
    strange = others > sum(by_cpu.values()) / 2
    yield Diagnosis(
        rule="machine-full",
        weight=Weight.TESTER if strange else Weight.SHORTAGE,
        share=busy,
        place="machine",
        text=f"all {len(by_cpu)} CPUs were busy for {percent(busy, 2)} of the time"
        + (", mostly with what is not of this run" if strange else ""),
        evidence=(
            ", ".join(
                [
                    *named,
                    *([f"softirqs {softirq:.2f}"] if softirq else []),
                    f"others {others:.2f} CPUs",
                ]
            ),
        ),
        remedy="end the other work, then measure again"
        if strange
        else "more CPUs, or the tester on another machine; less work in "
        + (most[0] if most else "what runs there"),
    )


def _used(e: Evidence) -> tuple[dict[str, float], float]:
    """CPUs by container or switch, and of softirqs apart: where these are charged to whom they
    worked for, none."""
    charged = [r.application for r in e.results if r.application and r.application.stack]
    if len(charged) == 1:
        [one] = charged
        names = dict.fromkeys((*one.cpu, *one.stack))
        return {n: one.cpu.get(n, 0.0) + one.stack.get(n, 0.0) for n in names}, 0.0
    used = {name: ns / 1e9 for name, ns in e.virtualization.rate("cgroup_cpu_ns").items()}
    switch = [e.virtual_switch.rate(f"process_{kind}_s") for kind in ("user", "system")]
    used |= {name: sum(part.get(name, 0.0) for part in switch) for name in switch[0]}
    return used, sum(cores.softirq(e.hardware).values())


def core_full(e: Evidence) -> Iterator[Diagnosis]:
    for cpu, busy in cores.busy(e.hardware).items():
        if busy < BUSY:
            continue
        states = {
            s: e.hardware.rate(f"cpu_{s}_s").get(cpu, 0.0)
            for s in ("user", "system", "softirq", "irq", "steal", "nice")
        }
        most = max(states, key=lambda s: states[s])
        yield Diagnosis(
            rule="core-full",
            weight=Weight.ADVICE,  # a polling core always is
            share=busy,
            place=cpu,
            text=f"{cpu} was busy for {percent(busy, 2)} of the time, mostly {most} "
            f"({percent(states[most], 2)})",
            remedy="more cores for what runs there, or less of it",
        )


def stolen(e: Evidence) -> Iterator[Diagnosis]:
    for cpu, share in e.hardware.rate("cpu_steal_s").items():
        if share >= STOLEN:
            yield Diagnosis(
                rule="stolen-time",
                weight=Weight.TESTER,
                share=share,
                place=cpu,
                text=f"the hypervisor kept {cpu} from this machine for {percent(share, 2)} of the "
                "time",
                remedy="measure where cores are not shared",
            )


RULES = (
    cpu_quota,
    waiting_for_a_core,
    busy_thread,
    machine_full,
    core_full,
    stolen,
)
