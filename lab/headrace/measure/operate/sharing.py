# SPDX-License-Identifier: Apache-2.0
"""Several chains on the same lcores. Each asks for what its SLO needs; where that is more than
there is, lcores are divided by the chains' weights, one of them in parts if it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headrace.ground.operable import Numbers, PlantTelemetry, SharedOperable, SharedPlant
from headrace.measure.operate.asking import AskingChain, view_of
from headrace.measure.operate.evened import even
from headrace.measure.operate.fair import AskedLcores, granted, laid_out
from headrace.measure.operate.handing import handed_over
from headrace.measure.operate.loop import SAID_EVERY_S, OperateRun, Tally, run_of
from headrace.measure.operate.policy import PlantSituation, Sizing, WantedStep
from headrace.record.operate import SharedLcores
from headrace.spec.operate import Operate, PolicyName

_ALL = 1e-9  # of what it asks for, that a chain may lack, as the numbers' last digits do


@dataclass
class ChainOnShared:
    """One of the chains while it runs. `target`: of each lcore, what it is to have."""

    name: str
    operable: SharedOperable
    asked: Operate  # with its own SLO
    asking: AskingChain
    plant: SharedPlant
    tally: Tally
    target: Numbers
    laid: Numbers  # for which parts its buckets were spread last
    why: str = "buckets are spread by their packets"
    asked_s: float = 0.0  # lcores that it asked for, over time
    _seen: PlantTelemetry = field(init=False)

    @property
    def weight(self) -> float:
        return self.asked.chains[self.name].weight

    @property
    def usable(self) -> Numbers:
        """The parts that it has, of the lcores that it is to have; where it has none of them yet,
        it stays where it is."""
        own = np.where(self.target > 0, self.plant.parts, 0.0)
        return own if own.any() else np.where(self.plant.on, self.plant.parts, 0.0)

    def read(self) -> AskedLcores:
        seen = self.plant.read()
        self.tally.interval(seen)
        self._seen = seen
        now = PlantSituation(seen, self.plant.assignment, self.plant.packets)
        asks = self.asking.asks(now)
        self.asked_s += min(asks.whole, len(self.target)) * seen.seconds
        return asks

    def step(self) -> None:
        """Buckets go to where it has lcores now, in parts that these have time for."""
        seen, metered = self._seen, self.asking.metered
        situation = PlantSituation(seen, self.plant.assignment, self.plant.packets)
        level, dearer = self.asking.view.level, self.asking.needed.dearer
        usable = self.usable
        metered.parts = usable
        if not np.array_equal(usable, self.laid):
            lcores = tuple(int(one) for one in np.flatnonzero(usable))
            whole = even(situation.now, lcores, situation.packets(), usable)
            begins, self.laid = not self.laid.any(), usable.copy()
            first = metered.begin(situation, whole, level, dearer)
            before, moved = situation.now.lcores, self.plant.act(first)
            if moved or not begins:
                wanted = WantedStep(first, self.why, lcores=len(lcores))
                self.tally.step(seen, len(before), moved, wanted)
        elif metered.target is not None:
            part = metered.further(situation, level, dearer)
            if part is not None:
                self.tally.goes_on(self.plant.act(part))

    def run(self, name: str) -> OperateRun:
        totals, seconds = self.plant.totals(), self.tally.seconds
        shared = SharedLcores(
            weight=self.weight,
            lcores=len(self.target),
            mean_asked=self.asked_s / seconds,
            backpressure=self.asked.backpressure,
            held_back=totals.held_back,
            broken_held=self.tally.broken_held,
            wasted_core_seconds=totals.wasted_s,
        )
        learned = self.asking.view.learned
        return run_of(self.tally, self.plant, learned, name, self.operable, self.asked, shared)


@dataclass
class SharingChains:
    """All of them."""

    chains: list[ChainOnShared]
    _grants: list[float] = field(default_factory=list)

    def interval(self) -> None:
        asks = [one.read() for one in self.chains]
        if self.chains[0].plant.ended:
            return
        lcores = len(self.chains[0].target)
        grants = granted(asks, [one.weight for one in self.chains], lcores)
        if grants != self._grants:
            self._grants = grants
            targets = laid_out(grants, np.array([one.target for one in self.chains]))
            for one, ask, grant, target in zip(self.chains, asks, grants, targets, strict=True):
                one.target, one.why = target, _why(ask, grant, lcores)
        self._hand_over()
        for one in self.chains:
            one.step()

    def _hand_over(self) -> None:
        plants = [one.plant for one in self.chains]
        have = handed_over(
            np.array([plant.parts for plant in plants]),
            np.array([one.target for one in self.chains]),
            np.array([plant.on for plant in plants]),
        )
        for plant, parts in zip(plants, have, strict=True):
            plant.parts = parts


def _why(ask: AskedLcores, grant: float, lcores: int) -> str:
    if grant >= min(ask.whole, ask.part) - _ALL:
        return f"it needs {grant:.3g} lcores"
    return f"it needs {ask.part:.3g} lcores, and {grant:.3g} of {lcores} are its share"


def share(
    chains: Mapping[str, SharedOperable], asked: Operate, name: PolicyName, repetition: int,
    say: Callable[[str], None],
) -> dict[str, OperateRun]:  # fmt: skip
    """Runs all chains at once: what came of each."""
    sharing = SharingChains(_begun(chains, asked, name, repetition))
    first, told = sharing.chains[0], 0.0
    while not first.plant.ended:
        sharing.interval()
        if first.tally.seconds - told >= SAID_EVERY_S:
            told = first.tally.seconds
            broken = ", ".join(f"{one.name} {one.tally.broken}" for one in sharing.chains)
            say(f"  {name}: {told:.0f} s, windows broken: {broken}")
    return {one.name: one.run(name) for one in sharing.chains}


def _begun(
    chains: Mapping[str, SharedOperable], asked: Operate, name: PolicyName, repetition: int
) -> list[ChainOnShared]:
    own = {chain: asked.of_chain(chain) for chain in chains}
    asking = []
    for chain, operable in chains.items():
        sizing = Sizing(operable.model, own[chain].slo)
        view = view_of(name, sizing, operable.future, asked.interval)
        asking.append(AskingChain(sizing, view, asked.interval))
    lcores = next(iter(chains.values())).model.most
    weights = [asked.chains[chain].weight for chain in chains]
    grants = granted([one.first() for one in asking], weights, lcores)
    targets = laid_out(grants, np.zeros((len(chains), lcores)))
    begun = []
    for (chain, operable), one, target in zip(chains.items(), asking, targets, strict=True):
        tally = Tally(own[chain].slo, float(operable.future.seconds[-1]), asked.interval)
        plant = operable.plant_on(target, repetition)
        begun.append(
            ChainOnShared(chain, operable, own[chain], one, plant, tally, target, np.zeros(lcores))
        )
    return begun
