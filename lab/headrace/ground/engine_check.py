# SPDX-License-Identifier: Apache-2.0
"""What the engine itself says of a plan before it runs: its own parser has the last word."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.engine.describe import (
    Captured,
    Description,
    OtherEngine,
    captured,
    describe,
    files_in,
)
from headrace.engine.passage import dry_plan
from headrace.engine.plan_document import Plan
from headrace.engine.traffic import refusal
from headrace.errors import EXIT_BAD_INPUT, BadInput, HeadraceError
from headrace.host.programs import ask
from headrace.host.state import short_run, write
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand
from headrace.spec.workload import Packets, Pcap

_CHECK_S = 900.0  # a routing table of 10^9 prefixes takes minutes to read


Accepted = set[tuple[Path, str]]
"""What an engine, by its program, has accepted: plans, and functions with their files."""


class PlanCheck:
    """Has the engine read each plan once. Every function is made as it is told to work, its rules
    and routes are read, and so is the traffic, before anybody waits for lcores.

    `accepted` may be shared by the points of a study, of which many have the same plan. `known_as`:
    what a plan is known by, where it names files that were written for this check alone.
    """

    def __init__(
        self,
        doc: Document,
        description: Description,
        accepted: Accepted | None = None,
        known_as: Callable[[str], str] = str,
    ) -> None:
        self.doc, self.description = doc, description
        self._accepted = set() if accepted is None else accepted
        self._known_as = known_as

    def check(self, plan: Plan, experiment: Experiment) -> None:
        self.parse(plan, experiment)
        self._check_files(plan, plan.text, experiment)

    def parse(self, plan: Plan, experiment: Experiment) -> None:
        """The plan alone, and no file that it names."""
        text = plan.text
        key = (self.description.engine, self._known_as(text))
        if key not in self._accepted:
            self._ask(text, experiment)
            self._accepted.add(key)

    def _check_files(self, plan: Plan, text: str, experiment: Experiment) -> None:
        """How the chain is cut makes no difference to its files, but into how many replicas a
        function shares its rates does."""
        files = self._known_as(repr((plan.nfs, _replicas(plan), plan.sources)))
        key = (self.description.engine, files)
        if key in self._accepted or not (plan.nfs or plan.sources):
            return
        try:
            self._ask(text, experiment, "--files")
        except BadInput:
            raise
        except HeadraceError:
            pass  # too little ordinary memory for this table, say: the run has its own
        self._accepted.add(key)

    def _ask(self, text: str, experiment: Experiment, *more: str) -> None:
        with short_run() as state:
            file = state.path / "plan.json"
            write(file, text)
            command = [str(self.description.engine), "--check", str(file), *more]
            try:
                done = ask(command, state, _CHECK_S)
            except subprocess.TimeoutExpired:
                why = f"headrace-engine --check: no answer in {_CHECK_S:g} s"
                raise HeadraceError(why) from None
        if done.returncode == 0:
            return
        words, place, problem = last_words(done)
        if done.returncode == EXIT_BAD_INPUT:
            self._of_the_lab(place, problem)
            raise refusal(place, problem, experiment, self.doc)
        raise HeadraceError(f"headrace-engine --check: {words}")

    def _of_the_lab(self, place: str, problem: str) -> None:
        """Keys of functions are a user's, and were held against the engine's own description; all
        others are what the lab writes."""
        if place == "version":
            raise OtherEngine(self.description.engine, problem, "older or newer")
        if problem.startswith("unknown key") and not place.startswith("nfs"):
            raise OtherEngine(self.description.engine, f"{place}: {problem}")


def last_words(done: subprocess.CompletedProcess[str]) -> tuple[str, str, str]:
    """What an engine that refuses says last; of that its place in the plan, and the problem."""
    [words] = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    place, _, problem = words.removeprefix("headrace-engine: ").partition(": ")
    return words, place, problem


def check_age(engine: Path) -> None:
    """OtherEngine where it does not know what is in each plan of the lab."""
    doc = document.parse("name: age\nchain: [l2fwd]\n", Path("age.yaml"))
    [one] = expand(doc)
    description = describe(engine)
    plan = dry_plan(one, description, doc)
    assert plan is not None, "it is small"
    PlanCheck(doc, description).parse(plan, one)


def _replicas(plan: Plan) -> dict[str, int]:
    """On how many lcores each function runs."""
    return {name: len(segment.cpus) for segment in plan.segments for name in segment.nodes or ()}


def input_files(
    experiments: Sequence[Experiment], doc: Document, description: Description
) -> dict[str, Path]:
    """Every file that the spec names, by the name that it uses; a replay needs them."""
    files: dict[str, Path] = {}
    for experiment in experiments:
        named = []
        for node in experiment.nodes:
            named += files_in(description.nfs[node.nf]["params"], node.params)
        workload = experiment.workload
        given = (
            (workload.file,)
            if isinstance(workload, Pcap)
            else (workload.dst_ips_file, workload.tuples_file, *traces_of(experiment, workload))
        )
        named += [str(file) for file in given if file is not None]
        files |= {name: doc.resolve(name) for name in named}
    return files


def traces_of(experiment: Experiment, workload: Packets) -> list[Path]:
    """Files of loads over time: the workload's, or one for each chain."""
    operate = experiment.study.measure.operate
    chains = {} if operate is None else operate.chains
    loads = [workload.load, *(one.load for one in chains.values())]
    return [one.trace for one in loads if one is not None and one.trace is not None]


def output_files(
    experiments: Sequence[Experiment], doc: Document, description: Description
) -> dict[str, Path]:
    """Files and sockets that functions are told to write to, by the name that the spec uses."""
    nodes = (node for one in experiments for node in one.nodes)
    params = ((description.nfs[node.nf]["params"], node.params) for node in nodes)
    named = (name for schema, given in params for name in files_in(schema, given, "output"))
    return {name: doc.output(name) for name in named}


def with_captures(
    experiments: Sequence[Experiment], doc: Document, description: Description
) -> list[Experiment]:
    """Packet buffers are as large as what is replayed. Each capture is read once."""
    known: dict[Path, Captured] = {}
    sized = []
    for one in experiments:
        capture = one.workload
        file = doc.resolve(capture.file) if isinstance(capture, Pcap) else None
        if file is not None and file.is_file():
            if file not in known:
                known[file] = captured(description.engine, file)
            largest, pps = known[file].largest_bytes, known[file].pps
            one = dataclasses.replace(one, captured_bytes=largest, captured_pps=pps)
        sized.append(one)
    return sized
