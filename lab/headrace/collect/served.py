# SPDX-License-Identifier: Apache-2.0
"""This server's layers for a lab elsewhere: what an agent does of what collect/elsewhere.py asks.

Containers are known by the id that their runtime gives them: control groups are named by it, under
either version and either driver of a kubelet's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.collect import Collector, Targets, collectors
from headrace.collect.collector import WatchedProcess, text
from headrace.collect.stack.tracer import Tracer
from headrace.errors import HeadraceError, bad_value
from headrace.host.cgroups import mounts

_ID = re.compile(r"[0-9a-f]{12,128}")
_NET = Path("/sys/class/net")
_NOTHING = Targets()


class ServedLayers:
    """Nothing is watched before `watch`."""

    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self._cpu_ns: dict[str, int] = {}
        self._tracer: Tracer | None = None

    def watch(
        self,
        layers: list[str],
        containers: Mapping[str, str],
        bridges: str | None,
        started: Targets = _NOTHING,
    ) -> dict[str, Any]:
        """`containers`: what the report calls each, and its id; `bridges`: what the names of the
        experiment's begin with; `started`: what the agent itself has started."""
        self.close()
        targets = _targets(containers, bridges)
        both = {
            "processes": (*started.processes, *targets.processes),
            "cgroups": (*started.cgroups, *targets.cgroups),
            "labels": {**started.labels, **targets.labels},
            "bridges": (*started.bridges, *targets.bridges),
        }
        chosen = collectors(started.model_copy(update=both), layers)
        self._collectors = {one.layer: one for one in chosen}
        self._cpu_ns = dict.fromkeys(self._collectors, 0)
        return {"layers": {one.layer: _about(one) for one in chosen}}

    def sample(self, layer: str) -> dict[str, Any]:
        if layer not in self._collectors:
            allowed = ", ".join(self._collectors) or "none before `watch`"
            raise bad_value("layer", layer, allowed=allowed)
        began = time.thread_time_ns()
        values = [tuple(one) for one in self._collectors[layer].read()]
        self._cpu_ns[layer] += time.thread_time_ns() - began
        return {"values": values, "cpu_ns": self._cpu_ns[layer]}

    def trace(self, options: Sequence[str]) -> dict[str, Any]:
        self._end_trace()
        tracer = Tracer(options)
        tracer.__enter__()
        self._tracer = tracer
        return {}

    def traced(self) -> dict[str, Any]:
        if self._tracer is None:
            raise HeadraceError("no packets are traced")
        try:
            return {"trace": self._tracer.stop().model_dump(mode="json", by_alias=True)}
        finally:
            self._end_trace()

    def _end_trace(self) -> None:
        if self._tracer is not None:
            self._tracer.__exit__(None, None, None)
            self._tracer = None

    def close(self) -> None:
        self._end_trace()
        for one in self._collectors.values():
            one.close()
        self._collectors = {}


def _about(one: Collector) -> dict[str, Any]:
    why = one.refusal()
    return {"refused": why, "absent": {} if why else one.absent()}


def _targets(containers: Mapping[str, str], bridges: str | None) -> Targets:
    groups: dict[str, str] = {}
    processes = []
    for name, number in containers.items():
        if not _ID.fullmatch(number):
            raise bad_value(f"containers.{name}", number, allowed="a container's id")
        group = _group_of(number)
        if group is None:
            continue  # it is not here, or has ended
        groups[group] = name
        if (pid := _first_process(group)) is not None:
            processes.append(WatchedProcess(name=name, pid=pid))
    names = (
        sorted(p.name for p in _NET.glob(f"{bridges}*") if (p / "bridge").is_dir())
        if bridges
        else []
    )
    labels = {name: name.removeprefix(f"{bridges}").lstrip("-") or name for name in names}
    return Targets(
        processes=tuple(processes),
        cgroups=tuple(groups),
        labels=groups | labels,
        bridges=tuple(names),
    )


def _roots() -> list[Path]:
    there = mounts()
    chosen = (there[key] for key in ("cpuacct", "cpu", "memory", "") if key in there)
    return list(dict.fromkeys(chosen))


def _group_of(number: str) -> str | None:
    """Below the mount points."""
    for root in _roots():
        for folder in root.rglob(f"*{number}*"):
            if (folder / "cgroup.procs").exists():
                return str(folder.relative_to(root))
    return None


def _first_process(group: str) -> int | None:
    """The oldest: containers' own numbers grow. 0 is one of another namespace of processes."""
    for root in _roots():
        numbers = [int(one) for one in (text(root / group / "cgroup.procs") or "").split()]
        if seen := [one for one in numbers if one]:
            return min(seen)
    return None
