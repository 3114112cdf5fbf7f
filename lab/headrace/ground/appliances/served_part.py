# SPDX-License-Identifier: Apache-2.0
"""The part of a chain of appliances that is on this server, for a lab elsewhere: what an agent does
of what graph_apart.py asks."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from subprocess import CompletedProcess
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headrace.collect.collector import Targets
from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import ContainerLayout
from headrace.ground.appliances.deploy import RunningGraph, ServerPart
from headrace.ground.appliances.feasible import check_supply
from headrace.ground.appliances.graph import ChargeReading, Supply
from headrace.ground.appliances.images import build_all
from headrace.ground.appliances.part_answers import AskedPart
from headrace.ground.catalogue import CatalogueEntry, catalogue
from headrace.host.ledger import Ledger
from headrace.host.state import RunState
from headrace.host.tool import tool

_AT_ONCE = 64  # commands in containers
_CHARGE = TypeAdapter(ChargeReading)
Done = CompletedProcess[str]


class ServedGraph:
    """One deployment at a time. A command in a container takes as long as it takes: it is begun,
    and its end asked for, so that other requests are answered meanwhile."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._graph: RunningGraph | None = None
        self._numbers = count(1)
        self._going: dict[int, Future[Done]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._calls: Mapping[str, Callable[..., dict[str, Any]]] = {
            "deploy": self._deploy, "inside": self._inside, "ended": self._ended,
            "give": self._give, "counts": self._counts, "charge": self._charge,
            "remove": self._remove,
        }  # fmt: skip

    def answered(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._calls[do](**arguments)

    def targets(self) -> Targets:
        return self._graph.targets() if self._graph is not None else Targets()

    def _deploy(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.close()
        try:
            part = AskedPart.model_validate(asked)
        except ValidationError as error:
            raise HeadraceError(f"no such part of a chain: {error.errors()[0]['msg']}") from None
        tool().answers()
        supplies = self._supplied(part.layout, part.supplies, part.server)
        notes: list[str] = []
        graph = RunningGraph(
            part.layout, supplies, "bridge", self._state, say=notes.append,
            part=ServerPart(part.server, part.uplinks),
        )  # fmt: skip
        graph.__enter__()
        self._graph = graph
        return {"notes": notes, "cpus": graph.cpus}

    def _supplied(
        self, layout: ContainerLayout, supplies: Mapping[str, Supply], server: str
    ) -> dict[str, Supply]:
        """Those with the images that this server has of them: the catalogue's are built here."""
        entries = catalogue()
        used = {node.vnf for node in layout.containers if node.server == server}
        own: list[CatalogueEntry] = []
        here: dict[str, Supply] = {}
        for name, supply in supplies.items():
            if supply.opaque:
                here[name] = supply
                continue
            if name not in entries or entries[name].definition != supply.definition:
                raise HeadraceError(f"VNF {name}: is another one here; allowed: the lab's own")
            here[name] = replace(supply, image=entries[name].image)
            own += [entries[name]] if name in used else []
        for name in used:
            check_supply(here[name])
        ledger = Ledger(self._state.path)
        try:
            build_all(own, _say, ledger)
        finally:
            ledger.undo()
        return here

    def _there(self) -> RunningGraph:
        if self._graph is None:
            raise HeadraceError("no part of a chain is deployed here")
        return self._graph

    def _inside(self, node: str, command: list[str], timeout_s: float) -> dict[str, Any]:
        graph, number = self._there(), next(self._numbers)
        [one] = (each for each in graph.containers if each.name == node)
        self._going[number] = self._pool.submit(graph.inside, one, *command, timeout_s=timeout_s)
        return {"number": number}

    def _ended(self, number: int) -> dict[str, Any]:
        if not self._going[number].done():
            return {"over": False}
        done = self._going.pop(number).result()
        return {
            "over": True, "status": done.returncode, "output": done.stdout, "errors": done.stderr,
        }  # fmt: skip

    def _give(self, data: str, target: str) -> dict[str, Any]:
        file = self._state.path / f"given-{next(self._numbers)}"
        file.write_bytes(base64.b64decode(data))
        try:
            self._there().give(file, target)
        finally:
            file.unlink()
        return {}

    def _counts(self) -> dict[str, Any]:
        counts = self._there().interface_counts()
        return {"interfaces": {n: {d: vars(c) for d, c in of.items()} for n, of in counts.items()}}

    def _charge(self) -> dict[str, Any]:
        return {"reading": _CHARGE.dump_python(self._there().charge(), mode="json")}

    def _remove(self) -> dict[str, Any]:
        self.close()
        return {}

    def close(self) -> None:
        graph, self._graph = self._graph, None
        if graph is not None:
            graph.__exit__(None, None, None)
        for one in self._going.values():
            with contextlib.suppress(HeadraceError):
                one.result()
        self._going.clear()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
