# SPDX-License-Identifier: Apache-2.0
"""What all layers say while a measurement runs: one module per layer (NfvInsight's five), sampled
together.

A collector only reads. It says whether it can run here and why not, and what it cost is
measured by the sampler and kept beside its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.collect.application import Application
from headrace.collect.collector import Collector, MetricValue, Targets
from headrace.collect.hardware import Hardware
from headrace.collect.os import OperatingSystem
from headrace.collect.sampler import Sampler
from headrace.collect.virtual_switch import VirtualSwitch
from headrace.collect.virtualization import Virtualization
from headrace.spec.collect import ALL_LAYERS, Layer

__all__ = ["Collector", "Layer", "MetricValue", "Sampler", "Targets", "collectors"]


_OF: dict[Layer, Callable[[Targets], Collector]] = {
    "application": Application,
    "virtualization": Virtualization,
    "virtual-switch": VirtualSwitch,
    "os": OperatingSystem,
    "hardware": Hardware,
}


def collectors(targets: Targets, layers: Collection[str] = ALL_LAYERS) -> list[Collector]:
    """One of each of these layers, whether it can run here or not. The others are not made: some
    count from then on, which costs what is measured."""
    return [_OF[layer](targets) for layer in ALL_LAYERS if layer in layers]
