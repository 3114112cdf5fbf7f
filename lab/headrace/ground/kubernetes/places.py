# SPDX-License-Identifier: Apache-2.0
"""What a node gave a pod, asked inside of it: CPUs, NUMA nodes, devices, throttling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.ground.kubernetes.nodes import cores
from headrace.ground.kubernetes.words import told_by
from headrace.host.cpu_time import listed
from headrace.record.bundle import write_whole
from headrace.record.pods import PODS, DeployedPodPlaces, PodPlace

# Lines `WORD VALUE...`; device plugins tell addresses by variables of this name's beginning.
PLACE = (
    "sh", "-c",
    "sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus /p; s/^Mems_allowed_list:[[:space:]]*/mems /p; "
    "s/^Speculation_Store_Bypass:[[:space:]]*/store-bypass /p' "
    "/proc/self/status; "
    "for n in /sys/devices/system/node/node[0-9]*; do "
    "[ -r $n/cpulist ] && echo node ${n##*node} $(cat $n/cpulist); done; "
    "env | sed -n 's/^PCIDEVICE_[A-Za-z0-9_]*=\\([0-9a-f:.,]*\\)$/\\1/p' | tr , '\\n' | "
    "while read -r a; do echo device $a $(cat /sys/bus/pci/devices/$a/numa_node); done; "
    "for f in /sys/fs/cgroup/cpu/cpu.stat /sys/fs/cgroup/cpu,cpuacct/cpu.stat "
    "/sys/fs/cgroup/cpu.stat; do [ -r $f ] && cat $f && break; done; true",
)  # fmt: skip


def place_in(text: str, pod: Mapping[str, Any], container: str, *, polls: bool) -> PodPlace:
    """`text`: what PLACE said in the container; `pod`: as the API server has it."""
    with told_by(str(pod["metadata"]["name"]), "its place"):
        return _place(text, pod, container, polls)


def _place(text: str, pod: Mapping[str, Any], container: str, polls: bool) -> PodPlace:
    cpus: set[int] = set()
    memory: set[int] = set()
    nodes: dict[int, set[int]] = {}
    devices: dict[str, int] = {}
    counts: dict[str, int] = {}
    store_bypass = ""
    for line in text.splitlines():
        word, *values = line.split() or [""]
        if word == "cpus" and values:
            cpus = set(listed(values[0]))
        elif word == "mems" and values:
            memory = set(listed(values[0]))
        elif word == "node" and len(values) == 2:
            nodes[int(values[0])] = set(listed(values[1]))
        elif word == "device" and len(values) == 2:
            devices[values[0]] = int(values[1])
        elif word == "store-bypass":
            store_bypass = " ".join(values)
        elif word in ("nr_periods", "nr_throttled") and len(values) == 1:
            counts[word] = int(values[0])
    limit = _cpu_limit(pod, container)
    qos = str(pod.get("status", {}).get("qosClass", ""))
    exclusive = qos == "Guaranteed" and limit is not None and len(cpus) == limit
    return PodPlace(
        node=str(pod["spec"]["nodeName"]),
        qos=qos,
        cpus=tuple(sorted(cpus)),
        exclusive=exclusive,
        polls=polls,
        cpu_nodes=tuple(sorted(n for n, own in nodes.items() if own & cpus)),
        memory_nodes=tuple(sorted(memory & set(nodes))),
        devices=devices,
        cpu_limit=limit,
        periods=counts.get("nr_periods", 0),
        throttled=counts.get("nr_throttled", 0),
        store_bypass=store_bypass,
    )


def _cpu_limit(pod: Mapping[str, Any], container: str) -> float | None:
    [one] = [c for c in pod["spec"]["containers"] if c["name"] == container]
    text = str(one.get("resources", {}).get("limits", {}).get("cpu", ""))
    if not text:
        return None
    return cores(text)


def note(bundle: Path | None, deployment: str, places: Mapping[str, PodPlace]) -> None:
    """Beside what is known of the run's other deployments."""
    if bundle is None:
        return
    file = bundle / "samples" / PODS
    file.parent.mkdir(exist_ok=True)
    before = DeployedPodPlaces.model_validate_json(file.read_text()).root if file.exists() else {}
    whole = DeployedPodPlaces({**before, deployment: dict(places)})
    write_whole(file, whole.model_dump_json(indent=1) + "\n")
