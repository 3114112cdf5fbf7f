# SPDX-License-Identifier: Apache-2.0
"""Agents of nodes without a cluster: what their DaemonSet asks for, how a refusal is told, and what
an agent's stream may bring."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import headrace
from headrace.collect.elsewhere import AnsweredThere, RefusedElsewhere, ask_as
from headrace.engine import control
from headrace.errors import HeadraceError
from headrace.ground.kubernetes import agents as agents_module
from headrace.ground.kubernetes.agents import NodeAgent, agents_on, daemon_set, rights_of
from headrace.host.cluster import Cluster
from headrace.host.stopwatch import Stopwatch
from headrace.spec.collect import Collect

ID = "0123456789abcdef" * 4
COLLECT = Collect.model_validate({"layers": ["os", "virtualization"], "trace": 0.01})
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pod(name: str, node: str, **status: object) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"nodeName": node},
        "status": {**READY, **status},
    }


class TwoNodes(Cluster):
    """`refused`: what admission says of the agents' pods."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.created: list[Mapping[str, Any]] = []

    def create(self, body: Mapping[str, Any]) -> None:
        self.created.append(body)

    def pods(self, namespace: str, chosen: str = "") -> list[dict[str, Any]]:
        if chosen == "headrace.io/role=agent":
            names = {} if self.refused else {"agent-a": "node1", "agent-b": "node2"}
            return [pod(name, node) for name, node in names.items()]
        both = [{"name": "vnf", "containerID": f"containerd://{ID}"}, {"name": "other"}]
        return [
            pod("nat", "node1", containerStatuses=both[:1]),
            pod("ids", "node2", containerStatuses=both),
        ]

    def warnings(self, namespace: str, pod: str) -> list[str]:
        return [self.refused] if pod == "headrace-agents" and self.refused else []


class FakeTunnel:
    """`answer`: what the agent sends for a request, and whether it goes on."""

    answer: Callable[[socket.socket, dict[str, Any]], bool]

    def __init__(self, *way: object, beats: bool) -> None:
        self.socket, self._theirs = socket.socketpair()
        self.last_words = ""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._theirs, self._theirs.makefile("rb") as lines:
            for line in lines:
                try:
                    if not type(self).answer(self._theirs, json.loads(line)):
                        return
                except OSError:
                    return

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def tunnel(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeTunnel]]:
    monkeypatch.setattr(agents_module, "Tunnel", FakeTunnel)
    yield FakeTunnel


def test_agents_ask_for_what_their_layers_need_and_no_more() -> None:
    switch = Collect.model_validate({"layers": ["virtual-switch"]})
    assert rights_of(switch) == ("SYS_PTRACE",)
    assert rights_of(COLLECT) == ("SYS_PTRACE", "BPF", "PERFMON")
    body = json.loads(json.dumps(daemon_set("n", "i", {"node2", "node1"}, switch)))
    spec = body["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": True,
        "runAsUser": 0,
    }
    assert spec["automountServiceAccountToken"] is False
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/tmp"]
    text = json.dumps(spec["affinity"])
    assert '"node1", "node2"' in text


def test_a_cluster_that_forbids_them_is_quoted(tunnel: type[FakeTunnel]) -> None:
    why = 'pods "headrace-agents-x" is forbidden: violates PodSecurity "baseline:latest"'
    with agents_on(TwoNodes(why), "n", "i", COLLECT, Stopwatch()) as elsewhere:
        assert isinstance(elsewhere, RefusedElsewhere)
        [first, *_] = elsewhere.collectors(["os"])
        assert first.refusal() == f"agents of nodes: {why}"


def test_nothing_is_started_where_nothing_is_read(tunnel: type[FakeTunnel]) -> None:
    cluster = TwoNodes()
    for image, collect in ((None, COLLECT), ("i", Collect(layers=()))):
        with agents_on(cluster, "n", image, collect, Stopwatch()) as elsewhere:
            assert elsewhere is None
    assert cluster.created == []


def honest(seen: list[dict[str, Any]]) -> Callable[[socket.socket, dict[str, Any]], bool]:
    def answer(to: socket.socket, asked: dict[str, Any]) -> bool:
        seen.append(asked)
        reply: dict[str, Any] = {"ok": True}
        if asked["cmd"] == "hello":
            reply |= {"version": headrace.__version__, "cpus": [0]}
        elif asked["cmd"] == "watch":
            reply |= {"layers": {"os": {"refused": None, "absent": {}}}}
        elif asked["cmd"] == "sample":
            [name] = [n for n in seen[1]["containers"] if "/" not in n] or ["ids/vnf"]
            values = [["forks", "", 1, "counter"], ["run_queue_delay_ns", name, 2, "counter"]]
            reply |= {"values": values, "cpu_ns": 3}
        to.sendall(json.dumps(reply).encode() + b"\n")
        return True

    return answer


def test_containers_are_called_by_their_pods(tunnel: type[FakeTunnel]) -> None:
    seen: list[dict[str, Any]] = []
    tunnel.answer = staticmethod(honest(seen))
    with agents_on(TwoNodes(), "n", "i", COLLECT, Stopwatch(), "hr1") as elsewhere:
        assert elsewhere is not None
        [layer] = elsewhere.collectors(["os"])
        with pytest.raises(HeadraceError, match="this deployment is on 2"):
            elsewhere.tracing(()).__enter__()
    watched = [asked for asked in seen if asked["cmd"] == "watch"]
    assert [one["containers"] for one in watched] == [{"nat": ID}, {"ids/vnf": ID, "ids/other": ""}]
    assert {one["bridges"] for one in watched} == {"hr1"}
    assert layer.refusal() is None


def test_an_agent_that_answers_wrongly_refuses_its_layers(tunnel: type[FakeTunnel]) -> None:
    """One says nothing of a layer, the other what is no answer; the measurement goes on."""
    seen: list[dict[str, Any]] = []

    def answer(to: socket.socket, asked: dict[str, Any]) -> bool:
        if asked["cmd"] == "watch" and "ids/vnf" in asked["containers"]:
            to.sendall(b'{"ok": true, "layers": 5}\n')
            return True
        return honest(seen)(to, asked)

    tunnel.answer = staticmethod(answer)
    with agents_on(TwoNodes(), "n", "i", COLLECT, Stopwatch()) as elsewhere:
        assert elsewhere is not None
        layers = {one.layer: one for one in elsewhere.collectors(["os", "hardware"])}
        assert layers["os"].refusal() is None
        assert "answer to 'watch' is not as expected" in layers["os"].absent()["server node2"]
        why = layers["hardware"].refusal()
        assert why is not None
        assert "agent on node1: it says nothing of this layer" in why


def flood(to: socket.socket, asked: dict[str, Any]) -> bool:
    while True:
        to.sendall(b"x" * 65536)


def drip(to: socket.socket, asked: dict[str, Any]) -> bool:
    to.sendall(b"x")
    return True


def over(to: socket.socket, asked: dict[str, Any]) -> bool:
    return False


def escape(to: socket.socket, asked: dict[str, Any]) -> bool:
    to.sendall(b'{"ok": false, "error": {"path": "", "msg": "\\u001b[2J gone"}}\n')
    return True


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (flood, "longer than 1048576 bytes"),
        (drip, "no answer to 'trace' within 0.5 s"),
        (over, "closed the control socket"),
        (escape, r"^agent on node1: \?\[2J gone$"),
    ],
)
def test_an_agent_that_is_not_ours_is_bounded(
    answer: Callable[[socket.socket, dict[str, Any]], bool], why: str,
    tunnel: type[FakeTunnel], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(control, "_ANSWER_MOST", 1 << 20)
    monkeypatch.setattr(agents_module, "_ANSWER_S", 0.5)
    tunnel.answer = staticmethod(answer)
    agent = NodeAgent(TwoNodes(), "n", "p", "node1")
    with pytest.raises(HeadraceError, match=why):
        ask_as(agent, "trace", AnsweredThere, options=[])
