# SPDX-License-Identifier: Apache-2.0
"""Everything that can be checked before the first packet: a long run must not fail on a typo at
its end."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine import passage
from headrace.engine.describe import Description, files_in, largest_captured
from headrace.engine.engine import Engine
from headrace.engine.place import PlacedSegment, Placement, place, usable_cpus
from headrace.engine.plan import GENERATOR, SINK, check_nodes, compile_plan, direct_plan
from headrace.engine.traffic import refusal
from headrace.errors import EXIT_BAD_INPUT, BadInput, HeadraceError
from headrace.ground.hosted.container import check as check_containers
from headrace.ground.hosted.hosted import HostedEngine
from headrace.ground.hosted.layout import Hosted, lay_out_hosted
from headrace.host import store
from headrace.host.state import RunState
from headrace.measure.counters import side_name
from headrace.record.segments import Segment
from headrace.spec.calibration import Calibration
from headrace.spec.document import Document
from headrace.spec.study import Experiment

Json = dict[str, Any]

_CHECK_S = 900.0  # a routing table of 10^9 prefixes takes minutes to read


def _parts(placed: PlacedSegment) -> list[tuple[str, tuple[int, ...], tuple[str, ...], str]]:
    """A segment, and what runs beside it on lcores of its own: as if it were a segment, too."""
    beside = dict(zip(placed.parallel[1:], placed.beside, strict=True))
    own = tuple(name for name in placed.nodes if name not in beside)
    return [
        (placed.name, placed.cpus, own, "chain"),
        *((side_name(placed.name, nf), cpus, (nf,), "chain") for nf, cpus in beside.items()),
    ]


@dataclass(frozen=True)
class Prepared:
    """An experiment, placed and compiled. The engine's memory is decided when the run begins."""

    experiment: Experiment
    placement: Placement
    plan: Json
    direct: Json
    policy: dict[str, frozenset[str]]  # node: the drop reasons that are what it was told to do
    hosted: Hosted | None = None  # VNFs of its own
    notes: tuple[str, ...] = ()  # what is right, but rarely meant

    def deploy(self, binary: Path, plan: Json, state: RunState) -> Engine:
        """The engine running; a hosted chain's host and VNFs are one to whoever asks it."""
        if self.hosted is None:
            return Engine(binary, plan, state)
        return HostedEngine(binary, plan, self.hosted, state)

    def with_memory(self, engine: Json, direct: bool = False) -> Json:
        plan = self.direct if direct else self.plan
        return {**plan, "engine": {**plan["engine"], **engine}}

    def _hosting_of(self, segment: str) -> str:
        if self.hosted is None or segment not in {vnf.name for vnf in self.hosted.vnfs}:
            return "inline"
        return self.hosted.hosting.kind

    def segments(self) -> tuple[Segment, ...]:
        """As the record shows them; segments that share an lcore say with whom."""
        placed = [
            (GENERATOR, (self.placement.generator,), (), "generator"),
            *(part for s in self.placement.segments for part in _parts(s)),
            (SINK, (self.placement.sink,), (), "sink"),
        ]
        return tuple(
            Segment.model_validate(
                {
                    "name": name,
                    "cpus": cpus,
                    "nfs": nodes,
                    "role": role,
                    "hosting": self._hosting_of(name),
                    "shares_cpu_with": tuple(
                        other
                        for other, theirs, *_ in placed
                        if other != name and set(theirs) & set(cpus)
                    ),
                }
            )
            for name, cpus, nodes, role in placed
        )


def prepare(
    experiments: list[Experiment], doc: Document, description: Description
) -> list[Prepared]:
    available = usable_cpus()
    experiments = _with_captures(experiments, doc, description)
    prepared: list[Prepared] = []
    checked: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="headrace-check-") as scratch:
        for experiment in experiments:
            check_nodes(experiment, doc, description)
            if experiment.study.deployment.hosting.kind != "inline":
                prepared.append(
                    _hosted(experiment, doc, description, available, checked, Path(scratch))
                )
                continue
            placement = place(experiment, doc, available)
            engine: Json = {"memory_mb": experiment.study.deployment.memory_mb}
            if experiment.study.deployment.locate:
                engine["locate"] = locating(experiment.study.deployment.locate)
            plan = compile_plan(experiment, placement, description, doc, engine)
            direct = direct_plan(experiment, placement, description, doc, engine)
            text = json.dumps(plan)
            if text not in checked:
                checked.add(text)
                _engine_check(text, Path(scratch), experiment, doc, description.engine)
            _check_files(plan, text, checked, Path(scratch), experiment, doc, description)
            policy = policy_drops(experiment, description)
            said = passage.notes(experiment, description, doc)
            prepared.append(Prepared(experiment, placement, plan, direct, policy, notes=said))
    return prepared


def _with_captures(
    experiments: list[Experiment], doc: Document, description: Description
) -> list[Experiment]:
    """Packet buffers are as large as what is replayed. Each capture is read once."""
    largest: dict[Path, int] = {}
    made = []
    for one in experiments:
        capture = one.study.workload.pcap
        file = None if capture is None else doc.resolve(capture)
        if file is not None and file.is_file():
            if file not in largest:
                largest[file] = largest_captured(description.engine, file)
            one = dataclasses.replace(one, captured_bytes=largest[file])
        made.append(one)
    return made


def _hosted(
    experiment: Experiment,
    doc: Document,
    description: Description,
    available: list[int],
    checked: set[str],
    scratch: Path,
) -> Prepared:
    engine: Json = {"memory_mb": experiment.study.deployment.memory_mb}
    hosted = lay_out_hosted(experiment, description, doc, available, engine)
    # What is wrong in the spec comes before what this machine or user lacks.
    if experiment.study.deployment.hosting.kind == "container":
        check_containers(doc)
    direct = direct_plan(experiment, hosted.placement, description, doc, engine)
    # VNFs of one kind differ in addresses only.
    kinds = {vnf.nodes: vnf.plan for vnf in hosted.vnfs}
    for plan in (hosted.plan, *filter(None, kinds.values())):
        text = json.dumps(plan)
        _engine_check(text, scratch, experiment, doc, description.engine)
        _check_files(plan, text, checked, scratch, experiment, doc, description)
    policy = policy_drops(experiment, description)
    said = passage.notes(experiment, description, doc)
    return Prepared(experiment, hosted.placement, hosted.plan, direct, policy, hosted, said)


def locating(every: int) -> Json:
    """With the limits of this server's calibration; without one only times can be told."""
    file = store.calibration_file()
    if not file.exists():
        return {"every": every}
    found = store.load(file, Calibration).locate.classes
    classes = [
        {"name": one.name}
        | ({} if one.below_cycles is None else {"below_cycles": one.below_cycles})
        for one in found
    ]
    return {"every": every, "classes": classes}


def policy_drops(experiment: Experiment, description: Description) -> dict[str, frozenset[str]]:
    """What the functions say of their own drop reasons; nothing where every loss counts."""
    if experiment.study.measure.losses == "all":
        return {}
    return {
        node.name: frozenset(description.nfs[node.nf].get("policy_drops", ()))
        for node in experiment.nodes
    }


def _check_files(
    plan: Json,
    text: str,
    checked: set[str],
    scratch: Path,
    experiment: Experiment,
    doc: Document,
    description: Description,
) -> None:
    """Every function is made as it is told to work, its rules and routes are read, and so is the
    traffic, before anybody waits for lcores. Each set of them once: how the chain is cut makes no
    difference to it, but into how many replicas a function shares its rates does."""
    sources = [link for link in plan["links"].values() if link["type"] == "source"]
    made = json.dumps([plan["nfs"], _replicas(plan), sources])
    if made in checked or not (plan["nfs"] or sources):
        return
    checked.add(made)
    try:
        _engine_check(text, scratch, experiment, doc, description.engine, "--files")
    except BadInput:
        raise
    except HeadraceError:
        return  # too little ordinary memory for this table, say: the run has its own


def _replicas(plan: Json) -> dict[str, int]:
    """On how many lcores each function runs."""
    return {
        name: len(segment["cpus"])
        for segment in plan["segments"]
        for name in segment.get("nodes", {})
    }


def _engine_check(
    text: str, scratch: Path, experiment: Experiment, doc: Document, engine: Path, *more: str
) -> None:
    """The engine's own parser has the last word."""
    file = scratch / "plan.json"
    file.write_text(text)
    command = [str(engine), "--check", str(file), *more]
    try:
        done = subprocess.run(command, capture_output=True, errors="replace", timeout=_CHECK_S)
    except subprocess.TimeoutExpired:
        raise HeadraceError(f"headrace-engine --check: no answer in {_CHECK_S:g} s") from None
    if done.returncode == 0:
        return
    words = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    place_, _, problem = words[0].removeprefix("headrace-engine: ").partition(": ")
    if done.returncode == EXIT_BAD_INPUT:
        raise refusal(place_, problem, experiment, doc)
    raise HeadraceError(f"headrace-engine --check: {words[0]}")


def input_files(
    experiments: list[Experiment], doc: Document, description: Description
) -> dict[str, Path]:
    """Every file that the spec names, by the name that it uses; a replay needs them."""
    found: dict[str, Path] = {}
    for experiment in experiments:
        named = []
        for node in experiment.nodes:
            named += files_in(description.nfs[node.nf]["params"], node.params)
        workload = experiment.study.workload
        for given in (workload.dst_ips_file, workload.tuples_file, workload.pcap):
            if given is not None:
                named.append(str(given))
        found |= {name: doc.resolve(name) for name in named}
    return found
