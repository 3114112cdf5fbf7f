# SPDX-License-Identifier: Apache-2.0
"""Dry runs: some packets of a workload through its chain, in an engine without lcores."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from headrace.engine.counts import EngineCounts
from headrace.engine.describe import Description
from headrace.engine.passage import MEMORY_MAX_MB, dry_plan, notes, packets_tried
from headrace.engine.plan_document import Plan
from headrace.engine.traffic import refusal
from headrace.errors import EXIT_BAD_INPUT, HeadraceError
from headrace.ground.engine_check import Accepted, PlanCheck, input_files, last_words
from headrace.host.programs import ask
from headrace.host.state import short_run, write
from headrace.spec.document import Document
from headrace.spec.study import Experiment

_MOST_S = 30.0  # that a note is worth waiting for
_UNREAD = f"files are named and were not read: deployment.memory_mb is above {MEMORY_MAX_MB}"


class DryRuns:
    """One for each chain and traffic, however often they are measured. `runs_here`: what this
    machine has no memory for is refused."""

    def __init__(self, *, runs_here: bool = True) -> None:
        self._runs_here = runs_here
        self._readings: dict[str, EngineCounts | None] = {}

    def notes(
        self, experiment: Experiment, doc: Document, description: Description
    ) -> tuple[str, ...]:
        """What the user is told; nothing where the engine cannot try it."""
        plan = dry_plan(experiment, description, doc)
        if plan is None:
            return ()
        packets = packets_tried(experiment)
        key = repr((packets, plan.functions, plan.nfs, plan.segments, _traffic(plan)))
        if key not in self._readings:
            done = self._run(description.engine, plan, packets)
            if self._runs_here and done is not None and done.returncode == EXIT_BAD_INPUT:
                _, place, problem = last_words(done)
                raise refusal(place, problem, experiment, doc)
            answered = done is not None and done.returncode == 0
            counts = EngineCounts.model_validate_json(done.stdout) if done and answered else None
            self._readings[key] = counts
        reading = self._readings[key]
        return () if reading is None else notes(reading, experiment)

    def _run(
        self, engine: Path, plan: Plan, packets: int
    ) -> subprocess.CompletedProcess[str] | None:
        """None: it took longer than it is worth."""
        with short_run() as state:
            file = state.path / "plan.json"
            write(file, plan.text)
            command = [str(engine), "--check", str(file), "--dry-run", str(packets)]
            try:
                done = ask(command, state, _MOST_S)
            except subprocess.TimeoutExpired:
                return None
        if done.returncode < 0:
            raise HeadraceError(f"{engine} --dry-run was ended by signal {-done.returncode}")
        return done


class TriedChains:
    """Chains of which nothing runs here: what their functions are told is held against an engine
    all the same, as if they did."""

    def __init__(self) -> None:
        self._dry = DryRuns(runs_here=False)
        self._accepted: Accepted = set()

    def notes(
        self, experiment: Experiment, doc: Document, description: Description
    ) -> tuple[str, ...]:
        """What the user is told. BadInput for what the engine refuses of functions, their files and
        the traffic."""
        plan = dry_plan(experiment, description, doc)
        if plan is None:
            return (_UNREAD,) if input_files([experiment], doc, description) else ()
        PlanCheck(doc, description, self._accepted).check(plan, experiment)
        return self._dry.notes(experiment, doc, description)


def _traffic(plan: Plan) -> list[dict[str, Any]]:
    """The sources, without the sizes of packets, which no rule knows."""
    return [{k: v for k, v in one.params.items() if k != "frame_bytes"} for one in plan.sources]
