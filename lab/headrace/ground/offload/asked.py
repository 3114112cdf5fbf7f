# SPDX-License-Identifier: Apache-2.0
"""What a study of offloaded VNFs asks for: a service, or one of its measurements."""

from __future__ import annotations

from typing import Any

from headrace.errors import BadInput
from headrace.spec.document import Document
from headrace.spec.offload import (
    Chaos,
    ChaosSpec,
    CompareSpec,
    Comparison,
    Convergence,
    ConvergenceSpec,
    Offload,
    OffloadService,
)
from headrace.spec.study import Study, read
from headrace.spec.workload import Packets

HOSTING = ("deployment", "hosting")
AnySpec = OffloadService | CompareSpec | ChaosSpec | ConvergenceSpec


def asked(doc: Document) -> AnySpec:
    study = read(doc)
    hosting = study.deployment.hosting
    if not isinstance(hosting, Offload):
        raise doc.error(HOSTING, f"got {hosting.kind}; allowed: offload")
    if isinstance(hosting.vnfs, dict):
        return _service(doc, study, hosting)
    common: dict[str, Any] = {
        "name": study.name,
        "description": study.description,
        "hugepages": study.deployment.hugepages,
        "memory_mb": study.deployment.memory_mb,
    }
    measure = study.measure
    if measure.convergence is not None:
        many = Convergence(daemons=hosting.daemon, **measure.convergence.model_dump())
        return ConvergenceSpec(**common, convergence=many)
    packets = _packets(doc, study, hosting.vnfs)
    if measure.chaos is not None:
        if hosting.vnfs < 2:
            raise doc.error(
                (*HOSTING, "vnfs"), "a VNF is killed, others go on; allowed with chaos: 2 to 64",
                value=hosting.vnfs,
            )  # fmt: skip
        return ChaosSpec(
            **common,
            chaos=Chaos(
                vnfs=hosting.vnfs, daemon=hosting.daemon[0], routes=hosting.routes,
                load=measure.loads[0], frame=packets.frame[0].sizes[0],
                **measure.chaos.model_dump(),
            ),
        )  # fmt: skip
    return CompareSpec(**common, compare=_comparison(doc, study, hosting, packets))


def _service(doc: Document, study: Study, hosting: Offload) -> OffloadService:
    assert isinstance(hosting.vnfs, dict)
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


def _packets(doc: Document, study: Study, vnfs: int) -> Packets:
    """One size, and a flow for each VNF."""
    [packets, *more] = study.workload
    assert isinstance(packets, Packets)
    if more or len(packets.frame) > 1 or len(packets.frame[0].sizes) > 1:
        raise doc.error(("workload",), "allowed with hosting offload: packets of one size")
    if packets.flows.count < vnfs:
        raise doc.error(
            ("workload", "flows"),
            f"{packets.flows.count} flows; allowed: at least one per VNF, {vnfs}",
        )
    return packets


def _comparison(doc: Document, study: Study, hosting: Offload, packets: Packets) -> Comparison:
    measure = study.measure
    if not measure.max or len(measure.loads) != 1:
        raise doc.error(
            ("measure",), "modes are compared by their most and at one load; allowed: "
            "{max: true, loads: [1M]}, and search beside them",
        )  # fmt: skip
    try:
        return Comparison(
            modes=hosting.modes, vnfs=hosting.vnfs if isinstance(hosting.vnfs, int) else 1,
            routes=hosting.routes, updates=hosting.updates, flows=packets.flows.count,
            frame=packets.frame[0].sizes[0], wire=hosting.wire, load=measure.loads[0],
            search=measure.search, search_timeout=measure.search_timeout, duration=measure.trial,
            repetitions=study.repetitions,
        )  # fmt: skip
    except ValueError as error:
        raise BadInput(f"{doc.file}: {error}") from None
