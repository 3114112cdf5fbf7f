# SPDX-License-Identifier: Apache-2.0
"""The processor: how many lcores, which vector units, what clock, how undisturbed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.check import CheckGroup, DoctorCheck, sudo
from headrace.host.server import sysfs

GROUP = CheckGroup("processor")
_CPU = Path("/sys/devices/system/cpu")
_LCORES_WANTED = 3  # generator, one segment, sink: each on its own


def checks() -> Iterator[DoctorCheck]:
    flags = _facts().get("flags", "").split()
    yield _lcores()
    yield _simd(flags)
    yield _clock(flags)
    yield _smt()
    yield _governor()
    yield _isolation()
    yield _shielding()
    if "hypervisor" in flags:
        yield GROUP(
            "virtual-machine",
            "limited",
            "this is a virtual machine",
            "neighbours take cycles and cache; compare interleaved runs, never absolutes",
        )


def _facts() -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in (sysfs.text("/proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip(), value.strip())
    return facts


def _lcores() -> DoctorCheck:
    usable = sorted(os.sched_getaffinity(0))
    model = _facts().get("model name", "unknown model")
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    enough = len(usable) >= _LCORES_WANTED
    return GROUP(
        "lcores",
        "ok" if enough else "limited",
        f"{model}: {len(usable)} CPUs usable, {nodes} NUMA node{'s' if nodes > 1 else ''}",
        None
        if enough
        else "generator, chain and sink want a CPU each; here they share, and reports say so",
    )


def _simd(flags: list[str]) -> DoctorCheck:
    if "avx512f" in flags:
        return GROUP("simd", "ok", "AVX-512 and AVX2")
    if "avx2" in flags:
        return GROUP(
            "simd", "ok", "AVX2, no AVX-512", "DPDK's AVX-512 paths of ACL and FIB are not used"
        )
    return GROUP("simd", "limited", "no AVX2", "table look-ups run their slow paths")


def _clock(flags: list[str]) -> DoctorCheck:
    invariant = "constant_tsc" in flags and "nonstop_tsc" in flags
    source = (
        sysfs.text("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    )
    return GROUP(
        "tsc",
        "ok" if invariant else "missing",
        f"{'invariant' if invariant else 'varying'} TSC; the kernel's clock is {source}",
        None if invariant else "latency and cycles need a TSC of constant rate",
    )


def _smt() -> DoctorCheck:
    active = sysfs.text(_CPU / "smt/active")
    if active != "1":
        return GROUP("smt", "ok", "one thread per core in use")
    return GROUP(
        "smt",
        "limited",
        "SMT is on",
        "an lcore's sibling takes part of its core; leave siblings of lcores idle",
        sudo("echo off > /sys/devices/system/cpu/smt/control"),
    )


def _governor() -> DoctorCheck:
    governors = {
        g
        for p in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")
        if (g := sysfs.text(p)) is not None
    }
    if not governors:
        return GROUP(
            "governor",
            "unknown",
            "the kernel does not control the frequency here",
            "the core's clock may change during a run without notice",
        )
    good = governors == {"performance"}
    return GROUP(
        "governor",
        "ok" if good else "limited",
        ", ".join(sorted(governors)),
        None if good else "the frequency follows the load, and figures with it",
        None
        if good
        else sudo(
            "for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; "
            "do echo performance > $f; done"
        ),
    )


def _isolation() -> DoctorCheck:
    isolated, ticks = sysfs.text(_CPU / "isolated"), sysfs.text(_CPU / "nohz_full")
    if isolated:
        tickless = ticks if ticks and ticks != "(null)" else "none"
        return GROUP("isolation", "ok", f"isolated CPUs {isolated}; without ticks: {tickless}")
    return GROUP(
        "isolation",
        "limited",
        "no CPU is isolated",
        "other work interrupts lcores: tail latency and zero-loss rates suffer; "
        "isolcpus=, nohz_full= and rcu_nocbs= on the kernel's command line keep it away",
        _isolate(),
    )


def _isolate() -> str | None:
    """Every CPU but the first, which the rest of the machine needs. Only where GRUB reads what
    packages put beside its defaults, as Debian's and Ubuntu's does."""
    cpus = os.cpu_count() or 1
    if cpus < 2 or not Path("/etc/default/grub").exists() or not shutil.which("update-grub"):
        return None
    these = "1" if cpus == 2 else f"1-{cpus - 1}"
    words = f"isolcpus={these} nohz_full={these} rcu_nocbs={these}"
    setting = f'GRUB_CMDLINE_LINUX=\\"\\$GRUB_CMDLINE_LINUX {words}\\"'
    file = "/etc/default/grub.d/isolation.cfg"
    return sudo(f'mkdir -p {Path(file).parent} && echo "{setting}" > {file} && update-grub') + (
        "   # then reboot"
    )


def _shielding() -> DoctorCheck:
    if sysfs.text("/proc/sys/kernel/sched_autogroup_enabled") == "1":
        able = os.access("/proc/self/autogroup", os.W_OK) and os.geteuid() == 0
        return GROUP(
            "autogroup",
            "ok" if able else "limited",
            "sched_autogroup is on; the engine's session "
            + ("gets precedence" if able else "cannot get precedence as this user"),
            None if able else "other sessions' work takes cycles from lcores",
        )
    return GROUP("autogroup", "ok", "sched_autogroup is off")
