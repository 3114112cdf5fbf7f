# SPDX-License-Identifier: Apache-2.0
"""Layers read by an agent, held against the same ones read here; and agents that answer wrongly."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.collect import Targets, virtualization
from headrace.collect import served as served_module
from headrace.collect.elsewhere import A, ElsewhereCollector, LayersThere, RefusedElsewhere
from headrace.collect.sampler import Sampler
from headrace.collect.samples import Samples
from headrace.collect.served import ServedLayers
from headrace.collect.watch import STACK_ABSENT, watching
from headrace.errors import BadInput, HeadraceError
from headrace.record.sampled import ReadableLayer
from headrace.spec.collect import Collect

ID = "0123456789abcdef" * 4


class Here:
    """An agent in this process: `answer` gives the line that it sends."""

    def __init__(self, answer: Callable[[dict[str, Any]], str]) -> None:
        self.turn = threading.RLock()
        self._answer, self._line = answer, ""

    def send(self, cmd: str, **arguments: object) -> None:
        self._line = self._answer({"cmd": cmd, **arguments})

    def receive_as(self, cmd: str, kind: type[A]) -> A:
        try:
            return kind.model_validate_json(self._line)
        except ValueError as why:
            raise HeadraceError(f"agent: {cmd}: {type(why).__name__}") from None


def serving(layers: ServedLayers) -> Callable[[dict[str, Any]], str]:
    def answer(asked: dict[str, Any]) -> str:
        work = getattr(layers, asked.pop("cmd"))
        return json.dumps({"ok": True, **work(**asked)})

    return answer


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control groups as a kubelet of systemd's driver names them; in one of them this process."""
    own = tmp_path / "kubepods.slice" / "kubepods-pod1.slice" / f"cri-containerd-{ID}.scope"
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text(f"0\n{os.getpid()}\n")
    (own / "cpu.stat").write_text("nr_periods 7\nnr_throttled 5\nthrottled_time 9\n")
    (own / "cpuacct.usage").write_text("123456\n")
    for module in (served_module, virtualization):
        monkeypatch.setattr(module, "mounts", lambda: {"cpuacct": tmp_path, "cpu": tmp_path})
    return tmp_path


@pytest.fixture
def agent(groups: Path) -> Iterator[Here]:
    layers = ServedLayers()
    yield Here(serving(layers))
    layers.close()


def collector(agent: Here, layer: str, **containers: str) -> ElsewhereCollector:
    agent.send("watch", layers=[layer], containers=containers, bridges=None)
    there = agent.receive_as("watch", LayersThere).layers
    [only] = there
    return ElsewhereCollector(only, {"node1": agent}, {"node1": there[only]}, containers)


def test_a_container_is_found_by_its_id_and_keeps_its_name(agent: Here) -> None:
    read = {
        (one.metric, one.place): one.value
        for one in collector(agent, "virtualization", nat=ID).read()
    }
    assert read["cgroup_cpu_ns", "nat"] == 123456
    assert read["cgroup_throttled_periods", "nat"] == 5
    assert ("busiest_thread_ns", "nat") in read
    assert ("collector_cpu_ns", "node1") in read


def test_a_process_is_the_containers_first_and_counted_as_the_kernel_counts(agent: Here) -> None:
    os_layer = collector(agent, "os", nat=ID)
    waited = {o.place: o.value for o in os_layer.read() if o.metric == "run_queue_delay_ns"}
    assert set(waited) == {"nat"}
    fields = Path("/proc/self/schedstat").read_text().split()
    assert waited["nat"] == pytest.approx(int(fields[1]), abs=1e9)


def test_what_is_a_servers_own_has_its_name(agent: Here) -> None:
    places = {one.place for one in collector(agent, "hardware", nat=ID).read()}
    assert {place.rpartition("@")[2] for place in places} == {"node1"}
    assert "cpu0@node1" in places


def test_an_id_that_is_none_is_refused(agent: Here) -> None:
    for number in ("*", "../..", "", "ABC"):
        with pytest.raises(BadInput, match=r"^containers\.nat: .*allowed: a container's id"):
            agent.send("watch", layers=["os"], containers={"nat": number}, bridges=None)


def test_a_container_that_is_not_there_is_left_out(agent: Here) -> None:
    assert collector(agent, "virtualization", nat="f" * 64).refusal() is not None


BAD = [
    "", "x", "[]", "{}", '{"ok": true}', '{"ok": false, "error": {}}', "[" * 100_000,
    '{"ok": true, "cpu_ns": 1, "values": [["m", "p", NaN, "counter"]]}',
    '{"ok": true, "cpu_ns": 1, "values": [["m", "p", 1e999, "counter"]]}',
    '{"ok": true, "cpu_ns": 1, "values": [["m", "p", 1, "other"]]}',
    '{"ok": true, "cpu_ns": 1, "values": [["m", "p"]]}',
    '{"ok": true, "cpu_ns": 1, "values": {"m": 1}}',
]  # fmt: skip


@pytest.mark.parametrize("line", BAD)
def test_an_agent_that_answers_wrongly_is_left_out_and_said(line: str, tmp_path: Path) -> None:
    """The other one's samples, and the run, go on."""
    good = '{"ok": true, "cpu_ns": 1, "values": [["forks", "", 5, "counter"]]}'
    agents = {"bad": Here(lambda asked: line), "good": Here(lambda asked: good)}
    there = dict.fromkeys(agents, ReadableLayer())
    with Sampler([ElsewhereCollector("os", agents, there, ())], tmp_path, 0.01):
        pass
    samples = Samples(tmp_path)
    assert samples.window("os").last == {"forks{good}": 5.0, "collector_cpu_ns{good}": 1.0}
    assert samples.layers["os"].absent["server bad"].startswith("from then on: agent: sample: ")


def test_a_cluster_that_forbids_agents_is_said_and_the_measurement_goes_on(tmp_path: Path) -> None:
    wanted = Collect.model_validate({"layers": ["os"], "trace": 0.01})
    no = RefusedElsewhere("agents of nodes: forbidden")
    watched = watching(wanted, Targets(), tmp_path, each_trial=True, elsewhere=no)
    with watched as watch, watch.trial(1):
        pass
    assert Samples(tmp_path).refused == {"os": "agents of nodes: forbidden"}
    assert (tmp_path / STACK_ABSENT).read_text() == "agents of nodes: forbidden\n"


def test_two_servers_that_differ_are_told_apart() -> None:
    there = {"a": ReadableLayer(absent={"ipc": "no PMU"}), "b": ReadableLayer(refused="no /proc")}
    agents = dict.fromkeys(there, Here(lambda asked: ""))
    one = ElsewhereCollector("hardware", agents, there, ())
    assert one.refusal() is None
    assert one.absent() == {"ipc": "no PMU", "server b": "no /proc"}
