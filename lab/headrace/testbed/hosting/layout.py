# SPDX-License-Identifier: Apache-2.0
"""A hosted chain as plans: the host's engine with traffic and switch, and one engine per VNF."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from headrace.spec.document import Document, PathKey
from headrace.spec.hosting import VFS_MAX, Hosting
from headrace.spec.study import Experiment
from headrace.testbed.describe import Description, with_absolute_files
from headrace.testbed.hosting.cpus import describe_cpu, pin
from headrace.testbed.place import PlacedSegment, Placement, check_told
from headrace.testbed.plan import GENERATOR, SINK, data_bytes, paths, wire_size
from headrace.testbed.traffic import source_params

Json = dict[str, Any]
RUN = "@RUN@"  # the run's directory, which is known when it begins
NIC, OUTSIDE, FACE = "nic", "outside", "mac-out"
_TESTER = "02:68:72:00:ff:01"
_AT = ("deployment", "hosting")


@dataclass(frozen=True)
class Vnf:
    """One VNF: its virtual function's port of the switch, and where it may run."""

    name: str
    vf: int
    nodes: tuple[str, ...]
    lcores: tuple[int, ...]
    plan: Json

    @property
    def link(self) -> str:
        return f"vf{self.vf}"


@dataclass(frozen=True)
class Hosted:
    placement: Placement
    plan: Json
    vnfs: tuple[Vnf, ...]
    hosting: Hosting
    topology: str


def mac(vf: int) -> str:
    return f"02:68:72:00:00:{vf:02x}"


def topology(length: int) -> str:
    """S2's names: one VNF is a PVP, two are a PVVP."""
    return {1: "pvp", 2: "pvvp"}.get(length, f"snake of {length}")


def lay_out_hosted(
    experiment: Experiment,
    description: Description,
    doc: Document,
    available: list[int],
    engine: Json,
) -> Hosted:
    hosting = experiment.study.deployment.hosting
    groups = _groups(experiment)
    _check(experiment, hosting, groups, doc)
    traffic, free = _lcores(experiment, doc, available)
    count = hosting.chains * len(groups)
    cpus = pin(
        hosting,
        count,
        [describe_cpu(number) for number in free],
        describe_cpu(_switch(traffic)),
        lambda key, problem: doc.error((*_AT, key), problem),
    )
    vnfs = []
    for vf in range(1, count + 1):
        chain, step = divmod(vf - 1, len(groups))
        onwards = mac(vf + 1) if step + 1 < len(groups) else _TESTER
        one = Vnf(f"vnf{chain + 1}.{step + 1}", vf, groups[step], cpus[vf - 1], {})
        plan = _vnf_plan(one, onwards, experiment, description, doc, hosting)
        vnfs.append(replace(one, plan=plan))
    firsts = [mac(chain * len(groups) + 1) for chain in range(hosting.carrying)]
    plan, notes = _host_plan(experiment, description, doc, engine, vnfs, firsts, traffic)
    placement = _placement(vnfs, traffic, notes)
    return Hosted(placement, plan, tuple(vnfs), hosting, topology(len(groups)))


def _groups(experiment: Experiment) -> list[tuple[str, ...]]:
    names = tuple(node.name for node in experiment.nodes)
    if experiment.execution.segments is not None:
        return list(experiment.execution.segments)
    if experiment.execution.model == "pipeline" and names:
        return [(name,) for name in names]
    return [names]


def _check(
    experiment: Experiment, hosting: Hosting, groups: list[tuple[str, ...]], doc: Document
) -> None:
    count = hosting.chains * len(groups)
    if count > VFS_MAX:
        raise doc.error(
            (*_AT, "chains"),
            f"{hosting.chains} chains of {len(groups)} VNFs are {count}; allowed: {VFS_MAX} VNFs, "
            "the virtual functions of a port",
        )
    execution, workload = experiment.execution, experiment.study.workload
    if set(execution.replicas or ()) - {1} or execution.lcores is not None:
        raise doc.error(
            ("deployment", "execution"),
            "a hosted VNF has one lcore, and `hosting` says which; allowed: no replicas, no lcores",
        )
    if workload.direction != "forward":
        raise doc.error(
            ("workload", "direction"),
            "hosted VNFs have one interface each; allowed: forward",
            value=workload.direction,
        )
    if workload.pcap is not None or workload.headers.dst_mac:
        key: PathKey = "pcap" if workload.pcap is not None else "headers"
        raise doc.error(
            ("workload", key),
            "the switch finds VNFs by MAC address; allowed: made frames, no dst_mac",
        )


def _lcores(
    experiment: Experiment, doc: Document, available: list[int]
) -> tuple[list[int], list[int]]:
    """Those of traffic and switch, and those of the VNFs."""
    told = experiment.study.deployment.lcores
    check_told(told, doc, available)
    traffic = list(told.traffic or [c for c in available if c not in (told.chain or ())][:1])
    free = list(told.chain or [cpu for cpu in available if cpu not in traffic])
    if not traffic or not free:
        raise doc.error(
            ("deployment", "lcores"),
            f"hosted VNFs need an lcore beside that of traffic; this machine gives {available}",
        )
    return traffic, free


def _switch(traffic: list[int]) -> int:
    """One lcore does all; of two the second switches and measures; three have one task each."""
    return traffic[min(1, len(traffic) - 1)]


def _vnf_plan(
    one: Vnf,
    onwards: str,
    experiment: Experiment,
    description: Description,
    doc: Document,
    hosting: Hosting,
) -> Json:
    """The functions, and behind them the VNF's own face: frames leave with its address, for the
    next one's."""
    nodes = {node.name: node for node in experiment.nodes}
    nfs: Json = {}
    wired: Json = {}
    order = [*one.nodes, FACE]
    for i, name in enumerate(one.nodes):
        node = nodes[name]
        params = with_absolute_files(description.nfs[node.nf]["params"], node.params, doc)
        nfs[name] = {"type": node.nf, "params": params}
        edges = {description.edges(node.nf)[0]: order[i + 1]}
        edges |= {edge: _target(to, one) for edge, to in node.to.items()}
        wired[name] = {"forward": edges}
    nfs[FACE] = {"type": "l2fwd", "params": {"src_mac": mac(one.vf), "dst_mac": onwards}}
    wired[FACE] = {"forward": {"out": "link:vf"}}
    link = {
        "socket": f"{RUN}/{one.link}.sock",
        "role": "client",
        "wait_link_ms": 60000,
        "times": hosting.times,
    }
    return {
        "version": 1,
        "engine": {
            "hugepages": False,
            "memory_mb": hosting.memory_mb,
            "mbufs": hosting.mbufs,
            "mbuf_data_bytes": data_bytes(experiment),
            "wait": {"mode": hosting.wait},
        },
        "links": {"vf": {"type": "shm", "params": link}},
        "nfs": nfs,
        "segments": [
            {
                "name": one.name,
                "cpus": [one.lcores[0]],
                "burst": experiment.study.deployment.burst,
                "inputs": [{"link": "vf", "to": order[0]}],
                "nodes": wired,
            }
        ],
    }


def _target(to: str, one: Vnf) -> str:
    """Another function of this VNF; who leaves it otherwise, leaves it for the next one."""
    return to if to in one.nodes or to == "drop" else FACE


def _host_plan(
    experiment: Experiment,
    description: Description,
    doc: Document,
    engine: Json,
    vnfs: list[Vnf],
    firsts: list[str],
    traffic: list[int],
) -> tuple[Json, list[str]]:
    [way] = paths(experiment)
    deployment, hosting = experiment.study.deployment, experiment.study.deployment.hosting
    source = source_params(experiment, way.direction, doc, description) | {"dst_macs": firsts}
    notes = _even_flows(source, len(firsts))
    wire = deployment.wire if deployment.wire != "auto" else _wire(experiment, traffic)
    ring = {"size": deployment.ring.size, "on_full": deployment.ring.on_full}
    links: Json = {
        way.source: {"type": "source", "params": source},
        way.wire: {"type": "ring", "params": {"size": wire, "on_full": "drop"}},
        way.back: {"type": "ring", "params": ring},
        way.sink: {"type": "sink", "params": {}},
    }
    for vnf in vnfs:
        params: Json = {"socket": f"{RUN}/{vnf.link}.sock", "slots": hosting.slots}
        links[vnf.link] = {"type": "shm", "params": {**params, "times": hosting.times}}
    nic = {"type": "veb", "params": _nic(vnfs, hosting, deployment.network)}
    vfs = [{"link": v.link, "to": NIC, "port": v.vf} for v in vnfs]
    edges = {f"p{v.vf}": f"link:{v.link}" for v in vnfs}
    cpu = _switch(traffic)
    nfs: Json = {NIC: nic}
    if deployment.network == "vepa":
        links |= {name: {"type": "ring", "params": ring} for name in ("up", "down")}
        nfs[OUTSIDE] = {"type": "veb", "params": _outside(vnfs)}
        switches = [
            _segment(
                OUTSIDE,
                cpu,
                [
                    {"link": way.wire, "to": OUTSIDE, "port": 1},
                    {"link": "up", "to": OUTSIDE, "port": 0},
                ],
                {"p0": "link:down", "p1": f"link:{way.back}"},
            ),
            _segment(
                NIC,
                cpu,
                [{"link": "down", "to": NIC, "port": 0}, *vfs],
                {"p0": "link:up", **edges},
            ),
        ]
    else:
        inputs = [{"link": way.wire, "to": NIC, "port": 0}, *vfs]
        switches = [_segment(NIC, cpu, inputs, {"p0": f"link:{way.back}", **edges})]
    segments = [
        {
            "name": GENERATOR,
            "cpus": [traffic[0]],
            "inputs": [{"link": way.source, "to": f"link:{way.wire}"}],
        },
        *switches,
        {
            "name": SINK,
            "cpus": [traffic[-1]],
            "inputs": [{"link": way.back, "to": f"link:{way.sink}"}],
        },
    ]
    held = sum(link["params"]["size"] for link in links.values() if link["type"] == "ring")
    engine = {
        **engine,
        "mbufs": deployment.mbufs or held + 16383,
        "mbuf_data_bytes": data_bytes(experiment),
    }
    return {
        "version": 1, "engine": engine, "links": links, "nfs": nfs, "segments": segments
    }, notes  # fmt: skip


def _segment(name: str, cpu: int, inputs: list[Json], edges: Json) -> Json:
    return {"name": name, "cpus": [cpu], "inputs": inputs, "nodes": {name: {"forward": edges}}}


def _wire(experiment: Experiment, traffic: list[int]) -> int:
    return wire_size(experiment, Placement(traffic[0], traffic[-1], (), ()))


def _even_flows(source: Json, chains: int) -> list[str]:
    """Destinations are taken in turn, packet by packet: a flow stays with its chain when the number
    of flows is a multiple of the chains'."""
    flows = int(source.get("flows", 1))
    most = -(-flows // chains) * chains
    if chains == 1 or most == flows:
        return []
    source["flows"] = most
    return [f"{most} flows, a multiple of the {chains} chains with traffic, for {flows}"]


def _nic(vnfs: list[Vnf], hosting: Hosting, mode: Literal["veb", "vepa"]) -> Json:
    uplink: Json = {"uplink": True}
    if hosting.uplink_gbps is not None:
        rate = int(hosting.uplink_gbps * 1e9)
        uplink |= {"rate_bps": rate, "in_rate_bps": rate}
    nic: Json = {
        "ports": [uplink, *({"macs": [mac(v.vf)], "spoof_check": True} for v in vnfs)],
        "mode": mode,
        "learning": False,
        "unknown": "uplink",
    }
    if hosting.switch_gbps is not None:
        nic["capacity_bps"] = int(hosting.switch_gbps * 1e9)
    return nic


def _outside(vnfs: list[Vnf]) -> Json:
    """The bridge behind the uplink: it gives back what is for the NIC's own (IEEE 802.1Qbg)."""
    return {
        "ports": [{"macs": [mac(v.vf) for v in vnfs], "reflect": True}, {"macs": [_TESTER]}],
        "learning": False,
    }


def _placement(vnfs: list[Vnf], traffic: list[int], notes: list[str]) -> Placement:
    segments = [PlacedSegment(NIC, (NIC,), (_switch(traffic),))]
    segments += [PlacedSegment(v.name, v.nodes, v.lcores) for v in vnfs]
    if len(traffic) < 3:
        notes = [*notes, f"generator, switch and sink share lcores {sorted(traffic)}"]
    lcores = sorted({cpu for v in vnfs for cpu in v.lcores})
    if len(vnfs) > len(lcores):
        notes = [*notes, f"{len(vnfs)} VNFs share lcores {lcores}"]
    return Placement(traffic[0], traffic[-1], tuple(segments), tuple(notes))
