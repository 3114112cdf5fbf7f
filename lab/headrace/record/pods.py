# SPDX-License-Identifier: Apache-2.0
"""Where the pods of a deployment ran, and what a node gave each of them."""

from __future__ import annotations

from pydantic import RootModel

from headrace.record.frozen import Record

PODS = "pods.json"  # in a bundle's samples


class PodPlace(Record):
    """One pod, as its node has it. Numbers of CPUs and NUMA nodes are its node's."""

    node: str
    qos: str  # Guaranteed, Burstable, BestEffort
    cpus: tuple[int, ...]  # that it may run on
    exclusive: bool  # they are its own (the kubelet's static CPU manager)
    polls: bool = False  # an engine polls in it
    cpu_nodes: tuple[int, ...] = ()  # NUMA nodes of its CPUs
    memory_nodes: tuple[int, ...] = ()  # from which it may have memory
    devices: dict[str, int] = {}  # PCI address of a virtual function: its NUMA node
    cpu_limit: float | None = None  # of CPUs
    periods: int = 0  # of that limit, in which it ran
    throttled: int = 0  # of these, in which it was stopped
    # What the kernel does about loads that run ahead of stores, in its words (proc(5))
    store_bypass: str = ""


class DeployedPodPlaces(RootModel[dict[str, dict[str, PodPlace]]]):
    """By deployment (chain and execution), then by pod."""
