# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.engine.plan_compiler import GENERATOR, SINK
from headrace.engine.plan_document import (
    Plan,
    PlanEngine,
    PlanFunction,
    PlanInput,
    PlanLink,
    PlanSegment,
    passing,
    ring,
)
from headrace.ground.kubernetes.cut import TESTER, cut, on_cpus, pod_of


def segment(name: str, cpu: int, node: str, ways: dict[str, tuple[str, str]]) -> PlanSegment:
    """`ways`: direction -> (the link that is read, the one that is written)."""
    return PlanSegment(
        name=name,
        cpus=(cpu,),
        inputs=tuple(PlanInput(link=a, to=node, direction=d) for d, (a, _) in ways.items()),
        nodes={node: {d: {"out": f"link:{b}"} for d, (_, b) in ways.items()}},
    )


def pipeline() -> Plan:
    """Both ways through a and b, as engine/plan_compiler.py compiles a pipeline of them."""
    there = {"forward": ("wire-forward", "to-b"), "reverse": ("to-a-r", "back-reverse")}
    back = {"forward": ("to-b", "back-forward"), "reverse": ("wire-reverse", "to-a-r")}
    rings = ("wire-forward", "wire-reverse", "to-b", "to-a-r", "back-forward", "back-reverse")
    source = PlanLink(type="source", params={"flows": 1})
    return Plan(
        engine=PlanEngine(mbuf_data_bytes=640),
        links={name: ring(65536 if "wire" in name else 4096) for name in rings}
        | {"gen-forward": source, "gen-reverse": source}
        | dict.fromkeys(("sink-forward", "sink-reverse"), PlanLink(type="sink")),
        nfs={"a": PlanFunction(type="acl"), "b": PlanFunction(type="nat")},
        segments=(
            passing(
                GENERATOR, 0, [("gen-forward", "wire-forward"), ("gen-reverse", "wire-reverse")]
            ),
            segment("vnf1", 1, "a", there),
            segment("vnf2", 2, "b", back),
            passing(SINK, 0, [("back-forward", "sink-forward"), ("back-reverse", "sink-reverse")]),
        ),
    )


def test_each_ring_between_pods_is_a_memif_with_an_end_in_each() -> None:
    parts = cut(pipeline())
    assert list(parts.plans) == [TESTER, "vnf1", "vnf2"]
    assert {(w.ring, w.writer, w.reader) for w in parts.wires} == {
        ("wire-forward", TESTER, "vnf1"),
        ("to-b", "vnf1", "vnf2"),
        ("back-forward", "vnf2", TESTER),
        ("wire-reverse", TESTER, "vnf2"),
        ("to-a-r", "vnf2", "vnf1"),
        ("back-reverse", "vnf1", TESTER),
    }
    for wire in parts.wires:
        writer, reader = parts.plans[wire.writer], parts.plans[wire.reader]
        ends = writer.links[wire.out], reader.links[wire.end]
        assert [end.type for end in ends] == ["port", "port"]
        roles = [str(end.params["devargs"]).split(",")[1] for end in ends]
        assert sorted(roles) == ["role=client", "role=server"]
        assert any(f"link:{wire.out}" == to for to in targets(writer))
        assert [i for s in reader.segments for i in s.inputs if i.link == wire.end]
    assert not any(plan.rings for plan in parts.plans.values())


def targets(plan: Plan) -> list[str]:
    every = [one.to for segment in plan.segments for one in segment.inputs]
    for one in plan.segments:
        for directions in (one.nodes or {}).values():
            for edges in directions.values():
                every += edges.values()
    return every


def test_every_function_is_in_one_pod_and_nothing_is_lost() -> None:
    whole = pipeline()
    parts = cut(whole)
    assert {pod: sorted(plan.nfs) for pod, plan in parts.plans.items()} == {
        TESTER: [], "vnf1": ["a"], "vnf2": ["b"],
    }  # fmt: skip
    assert parts.together.nfs == whole.nfs
    assert {s.name for s in parts.together.segments} == {s.name for s in whole.segments}
    named = [to.removeprefix("link:") for to in targets(parts.together) if to.startswith("link:")]
    assert set(named) <= set(parts.together.links)


def test_the_tester_listens_and_no_pod_calls_its_ports_alike() -> None:
    """The tester ends first: a memif's server must not outlive its client."""
    parts = cut(pipeline())
    tester = [str(link.params.get("devargs")) for link in parts.plans[TESTER].links.values()
              if link.type == "port"]  # fmt: skip
    assert len(tester) == 4
    assert all("role=server" in one for one in tester)
    for plan in parts.plans.values():
        ports = [str(link.params["devargs"]).split(",")[0] for link in plan.links.values()
                 if link.type == "port"]  # fmt: skip
        assert len(set(ports)) == len(ports)


def test_who_listens_has_a_server_and_nobody_else() -> None:
    parts = cut(pipeline())
    servers = {
        pod for pod, plan in parts.plans.items()
        if any("role=server" in str(link.params.get("devargs")) for link in plan.links.values())
    }  # fmt: skip
    assert servers == {pod for pod in parts.plans if parts.listens(pod)} == {TESTER, "vnf1"}


def test_buffers_are_for_what_a_pod_has() -> None:
    """Those of rings that are none any more are not made: both ways they were 150,000, which did
    not fit a pod's memory."""
    whole = pipeline()
    whole = whole.having(engine=whole.engine.having(mbufs=2 * 65536 + 4 * 4096 + 8191))
    parts = cut(whole)
    assert {plan.engine.mbufs for plan in parts.plans.values()} == {8191}
    virtqueues = cut(whole, "vhost-user").plans[TESTER]
    assert virtqueues.engine.mbufs == 8191 + 4 * 2 * 1024  # of its four ports, a ring each way
    assert {plan.engine.mbufs for plan in parts.with_buffers(9000).plans.values()} == {9000}


def test_a_memif_is_no_longer_than_it_may_be() -> None:
    sizes = {wire.ring: wire.size for wire in cut(pipeline()).wires}
    assert sizes["wire-forward"] == 14  # of 2^16
    assert sizes["to-b"] == 12


def test_vhost_user_has_its_server_where_a_memif_has() -> None:
    """The tester maps the others' memory, and nobody the tester's."""
    parts = cut(pipeline(), "vhost-user")
    drivers = {
        pod: {str(link.params["devargs"]).split(",")[0].rstrip("0123456789")
              for link in plan.links.values() if link.type == "port"}
        for pod, plan in parts.plans.items()
    }  # fmt: skip
    assert drivers == {
        TESTER: {"net_vhost"},
        "vnf1": {"net_vhost", "net_virtio_user"},
        "vnf2": {"net_virtio_user"},
    }
    for wire in parts.wires:
        ends = parts.plans[wire.writer].links[wire.out], parts.plans[wire.reader].links[wire.end]
        sockets = {str(end.params["devargs"]).split(",")[1].partition("=")[2] for end in ends}
        assert sockets == {wire.socket}


def test_a_chain_in_one_pod_keeps_its_rings() -> None:
    whole = pipeline()
    one = whole.having(
        segments=tuple(
            s.model_copy(update={"name": "generator"}) if s.name.startswith("vnf") else s
            for s in whole.segments
        )
    )
    parts = cut(one)
    assert parts.wires == ()
    assert parts.plans[TESTER].rings == whole.rings


def test_lcores_are_those_of_the_pod() -> None:
    plan = on_cpus(cut(pipeline()).plans["vnf2"], {2: 7})
    assert [segment.cpus for segment in plan.segments] == [(7,)]


def test_names_of_pods_are_labels() -> None:
    assert pod_of("ACL.nat_2") == "acl-nat-2"  # RFC 1123


def test_a_tester_that_is_apart_has_a_device_for_each_side() -> None:
    """Both ways of a side go by one device of each pod; between others nothing changes."""
    sides = {
        "wire-forward": "in", "back-reverse": "in", "back-forward": "out", "wire-reverse": "out",
    }  # fmt: skip
    parts = cut(pipeline(), sides=sides)
    assert parts.devices(TESTER) == ["left", "right"]
    assert (parts.devices("vnf1"), parts.devices("vnf2")) == (["in"], ["out"])
    assert parts.kinds == ("af_packet", "memif")
    for wire in parts.wires:
        writer, reader = parts.plans[wire.writer], parts.plans[wire.reader]
        assert f"link:{wire.out}" in targets(writer)
        assert [i for s in reader.segments for i in s.inputs if i.link == wire.end]
    devices = {
        name: str(link.params["devargs"]).split(",")
        for plan in parts.plans.values()
        for name, link in plan.links.items()
        if link.type == "port" and "." not in name
    }
    assert {name: one[1] for name, one in devices.items()} == {
        "left": "iface=left", "right": "iface=right", "in": "iface=in", "out": "iface=out",
    }  # fmt: skip
    assert devices["left"][0] != devices["right"][0]
