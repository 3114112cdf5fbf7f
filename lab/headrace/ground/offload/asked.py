# SPDX-License-Identifier: Apache-2.0
"""The service that a study of offloaded VNFs by name asks for."""

from __future__ import annotations

from headrace.spec.document import Document
from headrace.spec.offload import Offload, OffloadService
from headrace.spec.study import read

HOSTING = ("deployment", "hosting")


def service_of(doc: Document) -> OffloadService:
    study = read(doc)
    hosting = study.deployment.hosting
    if not isinstance(hosting, Offload):
        raise doc.error(HOSTING, f"got {hosting.kind}; allowed: offload")
    if not isinstance(hosting.vnfs, dict):
        raise doc.error(
            (*HOSTING, "vnfs"), "a number of VNFs is measured, by `headrace run`; allowed: VNFs by "
            "name, each with its interfaces",
        )  # fmt: skip
    for name, vnf in hosting.vnfs.items():
        for device, interface in vnf.interfaces.items():
            if interface.port not in hosting.ports:
                raise doc.error(
                    (*HOSTING, "vnfs", name, "interfaces", device, "port"), "no such port",
                    value=interface.port, allowed=", ".join(hosting.ports),
                )  # fmt: skip
    return OffloadService(
        name=study.name, description=study.description, hugepages=study.deployment.hugepages,
        memory_mb=study.deployment.memory_mb, ports=hosting.ports, vnfs=hosting.vnfs,
        lcore=hosting.lcore, punt_pps=hosting.punt_pps,
    )  # fmt: skip
