# SPDX-License-Identifier: Apache-2.0
"""What all layers say while a measurement runs: one module per layer (S4's five), sampled together.

A collector only reads. It says whether it can run here and why not, and what it cost is
measured by the sampler and kept beside its samples.
"""

from __future__ import annotations

from headrace.measure.collectors.application import Application
from headrace.measure.collectors.base import Collector, Layer, Reading, Targets
from headrace.measure.collectors.hardware import Hardware
from headrace.measure.collectors.os import OperatingSystem
from headrace.measure.collectors.sampler import Cost, Sampler
from headrace.measure.collectors.virtual_switch import VirtualSwitch
from headrace.measure.collectors.virtualization import Virtualization

__all__ = ["Collector", "Cost", "Layer", "Reading", "Sampler", "Targets", "collectors"]


def collectors(targets: Targets) -> list[Collector]:
    """One of each layer, whether it can run here or not."""
    return [
        Application(targets),
        Virtualization(targets),
        VirtualSwitch(targets),
        OperatingSystem(targets),
        Hardware(targets),
    ]
