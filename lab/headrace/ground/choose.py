# SPDX-License-Identifier: Apache-2.0
"""Which ground a study runs on: its hosting says so, or its `ground`.

A new ground is added here, and what asks for it in the spec: a kind of hosting (HOSTING_KINDS in
spec/deployment.py, its keys of a Study in spec/forms.py), or a choice of `ground` (GroundChoice in
spec/study.py), as simulated, fitted and kubernetes are. Chains of headrace's own functions are one
ground with a point for each kind of hosting (own_chains.py: inline, process, container, vm), for
chains between ports (`testbed`: wired/), and for other engines (`deployment.engine`: engines/).
`tune` has a ground that no study asks for (tune/ground.py).

Grounds are loaded when wanted: a run need not wait half a second for those of others.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.describe import describe
from headrace.ground.contract import Checked, Ground
from headrace.host.programs import find_engine
from headrace.host.store import server_named
from headrace.spec.document import Document
from headrace.spec.forms import hosting_kind
from headrace.spec.study import GroundChoice, ground_of

if TYPE_CHECKING:
    from headrace.ground.appliances.ground import AppliancesGround
    from headrace.ground.offload.ground import OffloadGround
    from headrace.ground.own_chains import Chains
    from headrace.ground.simulated.ground import SimulatedGround


def simulated(doc: Document) -> bool:
    """Whether the study asks for a described server, so that all is computed."""
    asked = ground_of(doc)
    return asked is not None and asked.computed


class Grounds:
    """The grounds of one command. The points of a study are checked by one object, so that what
    they have in common is checked once."""

    def __init__(self) -> None:
        self._described: dict[tuple[Path, str], SimulatedGround] = {}  # by file and engine

    def check(self, doc: Document) -> Checked:
        asked = ground_of(doc)
        if asked is not None and asked.kubernetes is not None:
            from headrace.ground.kubernetes.ground import KubernetesGround

            return KubernetesGround(asked.kubernetes).check(doc)
        if asked is not None:
            return self._computed(doc, asked).check(doc)
        kind = hosting_kind(doc.data)
        if kind == "appliances":
            return self._appliances.check(doc)
        if kind == "offload":
            return self._offloaded.check(doc)
        return self._chains.check(doc)

    def _computed(self, doc: Document, asked: GroundChoice) -> Ground:
        if asked.simulated is None:
            from headrace.ground.fitted.ground import FittedGround

            return FittedGround()
        from headrace.ground.simulated.ground import SimulatedGround

        key = (server_named(doc, asked.server), asked.simulated.engine)
        if key not in self._described:
            self._described[key] = SimulatedGround.of(*key, doc)
        return self._described[key]

    @cached_property
    def _appliances(self) -> AppliancesGround:
        from headrace.ground.appliances.ground import AppliancesGround

        return AppliancesGround()

    @cached_property
    def _offloaded(self) -> OffloadGround:
        from headrace.ground.offload.ground import OffloadGround

        return OffloadGround(describe(find_engine()))

    @cached_property
    def _chains(self) -> Chains:
        from headrace.ground.own_chains import Chains

        return Chains(describe(find_engine()))
