# SPDX-License-Identifier: Apache-2.0
"""What a VNF's plan becomes in a virtual machine, and the host's end of its interfaces."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import ValidationError

from headrace.engine.describe import Description, with_absolute_files
from headrace.engine.plan_document import Plan, PlanLink
from headrace.errors import BadInput
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.vm_image import address
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting
from headrace.spec.invalid import sentence
from headrace.spec.study import Experiment
from headrace.spec.vm import APPLIANCE, ApplianceVm

HUGEPAGE_MB = 2
# Blocks of 64 KiB, 512 frames: bursts of the kernel's are not lost.
_AF_PACKET = "net_af_packet{i},iface=eth{i},blocksz=65536,framesz=2048,framecnt=512"
_KERNEL_MB = 72  # the kernel itself, its page tables, the script, the engine's own memory
EAL_MB = 8  # hugepages that DPDK takes beside those asked for
_LINK_MS = 60000
_WHOLE_BYTES = 2048  # virtio's driver takes no buffers that a frame of 1518 bytes does not fit in


def host_link(face: Face, hosting: Hosting) -> PlanLink:
    """vhost-user: DPDK's back end in the host's engine, which outlives the machines."""
    devargs = f"net_vhost{face.vf},iface={face.socket},queues=1"
    descriptors = {"rx_descriptors": hosting.slots, "tx_descriptors": hosting.slots}
    params = {"devargs": devargs, **descriptors, "times": hosting.times}
    return PlanLink(type="port", params=params)


def appliance_of(
    one: Vnf, experiment: Experiment, description: Description, doc: Document
) -> ApplianceVm | None:
    """The user's image that this VNF is, or None."""
    for node, at in zip(experiment.nodes, experiment.node_paths, strict=True):
        if node.name not in one.nodes or node.nf != APPLIANCE:
            continue
        if len(one.nodes) > 1:
            raise doc.error(
                at[:-1],
                f"{node.name!r} is a machine of its own and cannot share one with other functions; "
                "allowed: `execution: pipeline`, or a segment of its own",
            )
        doc.check_trusted(at, str(node.params.get("image") or node.params.get("kernel")))
        files = with_absolute_files(description.nfs[APPLIANCE]["params"], node.params, doc)
        try:
            return ApplianceVm.model_validate(files)
        except ValidationError as error:
            raise doc.error(at, sentence(error)) from None
    return None


def guest_plan(vnf: Vnf, plan: Plan, hosting: Hosting, driver: str) -> Plan:
    """The last vCPU works; those before it have the rest of the guest to themselves."""
    room = max(plan.engine.mbuf_data_bytes or 0, _WHOLE_BYTES)
    engine = plan.engine.having(hugepages=True, mbuf_data_bytes=room, file_prefix="headrace")
    by_address = driver != "af_packet"
    if by_address:
        engine = engine.having(pci=[address(i) for i in range(len(vnf.faces))])
    links = {
        face.name: PlanLink(
            type="port",
            params={
                "devargs": address(i) if by_address else _AF_PACKET.format(i=i),
                "rx_descriptors": hosting.slots,
                "tx_descriptors": hosting.slots,
                "wait_link_ms": _LINK_MS,
                "times": hosting.times,
                # A NIC's function that saw the others' frames would forward them, too.
                "promiscuous": driver != "vfio",
            },
        )
        for i, face in enumerate(vnf.faces)
    }
    cpus = {"cpus": (hosting.vm.vcpus - 1,)}
    segments = tuple(one.model_copy(update=cpus) for one in plan.segments)
    return plan.having(engine=engine, links={**plan.links, **links}, segments=segments)


def hugepages(hosting: Hosting) -> int:
    """How many the guest's kernel reserves for its engine."""
    return math.ceil((hosting.memory_mb + EAL_MB) / HUGEPAGE_MB)


def check_room(name: str, hosting: Hosting, initrd: Path) -> None:
    """A guest that has too little memory does not start, and cannot say why."""
    files = math.ceil(initrd.stat().st_size / 1e6)
    pages = hugepages(hosting) * HUGEPAGE_MB
    # The archive, and what is unpacked from it, are there at once for a moment.
    needed = _KERNEL_MB + 2 * files + pages
    if hosting.vm.memory_mb < needed:
        raise BadInput(
            f"deployment.hosting.vm.memory_mb: got {hosting.vm.memory_mb}; {name} needs {needed}: "
            f"{pages} for its engine (hosting.memory_mb), twice the {files} of its files, "
            f"{_KERNEL_MB} for Linux; allowed: at least that"
        )


def arguments(hosting: Hosting, driver: str, faces: int, accel: str) -> str:
    """The guest kernel's."""
    words = ["console=ttyS0", "quiet", "panic=-1", "random.trust_cpu=on", "hugepagesz=2M"]
    words += [f"hugepages={hugepages(hosting)}", f"headrace.driver={driver}"]
    words.append("headrace.nics=" + ",".join(address(i) for i in range(faces)))
    if driver == "vfio":
        words += ["intel_iommu=on", "iommu=pt"]
    if accel == "tcg":
        # What is emulated has neither the CPU's faults nor a reason to doubt its clock.
        words += ["mitigations=off", "tsc=reliable", "nokaslr"]
    return " ".join(words)
