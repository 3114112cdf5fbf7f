# SPDX-License-Identifier: Apache-2.0
"""The same frames through headrace's chain and an engine, between the same ports: what comes out
of both is compared before a figure of the engine is believed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.engine.engine import Engine
from headrace.engine.plan_compiler import GENERATOR, paths
from headrace.engine.plan_compiler import Path as Way
from headrace.engine.plan_document import PlanInput, PlanLink, PlanSegment
from headrace.engine.running import RunningEngine, looks
from headrace.engine.ways import Direction
from headrace.errors import HeadraceError
from headrace.ground.contract import Site
from headrace.ground.engines.adapter import Adapter, Declared
from headrace.ground.engines.frames import in_words, read_frames, write_frames
from headrace.ground.engines.probes import FRAGMENTS, HELD_FRAGMENTS, NOT_COMPARED, probes
from headrace.ground.engines.translation import BALANCED, CHOSEN, chosen, seeded, with_choice
from headrace.ground.wired.ground import WiredPoint
from headrace.record.bundle import write_whole
from headrace.record.equivalence import EQUIVALENCE_FILE, DifferingFrame, Equivalence
from headrace.spec.chain import Node

_SEED = 24
_OWN = 150  # frames of the workload, each way
_PPS = 2000.0  # slow enough for every engine
_DONE_S, _STILL_S, _LOOK_S = 30.0, 0.2, 0.02
_SHOWN = 5  # differing frames of each kind
_TRIES = 2  # a frame that a busy machine lost is no difference


@dataclass(frozen=True)
class Equivalences:
    """Two points of one chain: headrace's, and the other engine's."""

    ours: WiredPoint
    theirs: WiredPoint
    adapter: Adapter

    def verdict(self, site: Site) -> Equivalence:
        """It is written into the bundle, too."""
        one = self.theirs.experiment
        site.status(f"comparing {one.engine}'s packets with headrace's")
        with site.stopwatch.phase("verifying"):
            workload = self._own(site)
            own = {way: self._given(way, frames) for way, frames in workload.items()}
            random_frames = {
                way: self._given(
                    way, probes(one, self.ours.doc, frames, _SEED, self._fragments, way)
                )
                for way, frames in workload.items()
            }
            given = {way: [*own[way], *random_frames[way]] for way in own}
            for _ in range(_TRIES):
                outcome = self._compared(given, sum(map(len, own.values())), site)
                if outcome.equal:
                    break
        if site.bundle is not None:
            folder = site.bundle / "samples"
            name = EQUIVALENCE_FILE.format(1 + len(list(folder.glob("equivalence-*.json"))))
            write_whole(folder / name, outcome.model_dump_json(indent=1) + "\n")
        return outcome

    @property
    def _fragments(self) -> bool:
        kinds = {to.kind for to in self.ours.devices.values()}
        return "af_packet" not in kinds and not self._translates

    @property
    def _no_fragments(self) -> str:
        return HELD_FRAGMENTS if self._translates else FRAGMENTS

    def _given(self, way: Direction, frames: Sequence[bytes]) -> list[bytes]:
        """Those that the adapter does not keep from both."""
        asked = [one.given for one in self.adapter.declared if one.given is not None]
        return [frame for frame in frames if all(given(way, frame) for given in asked)]

    def _own(self, site: Site) -> dict[Direction, list[bytes]]:
        """Frames as the workload's sources make them, each way."""
        point, ways = self.ours, paths(self.ours.experiment)
        plan = point.with_memory(site.engine)
        files = {way.direction: site.state.path / f"own-{way.direction}.pcap" for way in ways}
        links = {way.source: plan.links[way.source] for way in ways}
        links |= {way.sink: _capture(way, files[way.direction]) for way in ways}
        entries = tuple(
            PlanInput(link=way.source, to=f"link:{way.sink}", direction=way.direction)
            for way in ways
        )
        segment = PlanSegment(name=GENERATOR, cpus=(point.placement.generator,), inputs=entries)
        alone = plan.having(links=links, segments=(segment,))
        with Engine(point.description.engine, alone, site.state) as engine:
            _send(engine, ways, {way.source: _OWN for way in ways})
        return {direction: read_frames(file) for direction, file in files.items()}

    def _compared(
        self, given: Mapping[Direction, list[bytes]], own: int, site: Site
    ) -> Equivalence:
        (ours, answers), (theirs, _) = (
            self._let_out(one, given, site) for one in (self._seeded, self.theirs)
        )
        same = [self._without(frames) for frames in (ours, theirs)]
        missing, surplus = same[0] - same[1], same[1] - same[0]
        point, declared = self.theirs, self._declared
        left_out = [*NOT_COMPARED, *(() if self._fragments else (self._no_fragments,))]
        left_out += [one.text for one in declared if one.given is not None]
        return Equivalence(
            engine=point.experiment.engine, chain=point.chain,
            workload=point.experiment.workload_name, seed=_SEED, own=own,
            probes=sum(map(len, given.values())) - own, answers=answers,
            came=len(ours), came_engine=len(theirs),
            missing=missing.total(), surplus=surplus.total(),
            first_missing=_first(missing), first_surplus=_first(surplus),
            declared=tuple(one.text for one in declared if one.given is None),
            not_compared=tuple(left_out),
            beside=tuple(self.adapter.beside),
        )  # fmt: skip

    def _without(self, frames: Sequence[bytes]) -> Counter[bytes]:
        """Frames as far as they are to be the same."""
        for one in self._declared:
            left = map(one.without, frames)
            frames = [frame for frame in left if frame is not None]
        return Counter(frames)

    @property
    def _choosing(self) -> list[Node]:
        return with_choice(self.theirs.experiment)

    @property
    def _translates(self) -> bool:
        return any(node.nf == "nat" for node in self._choosing)

    @property
    def _declared(self) -> tuple[Declared, ...]:
        may, texts = chosen(self._choosing), []
        if self._translates:
            texts.append(CHOSEN)
        if may.backends:
            texts.append(BALANCED)
        own = (Declared(" ".join(texts), may.without),) if texts else ()
        return (*self.adapter.declared, *own)

    @property
    def _seeded(self) -> WiredPoint:
        plans = {name: seeded(plan) for name, plan in self.ours.chain_plans.items()}
        return replace(self.ours, chain_plans=plans)

    def _let_out(
        self, point: WiredPoint, given: Mapping[Direction, list[bytes]], site: Site
    ) -> tuple[list[bytes], int]:
        """Also behind answers to what was let out under a chosen endpoint, each engine's own: it
        is started again, and chooses the same. How many answers there were."""
        out, answers = self._out(point, given, site), list[bytes]()
        if (nodes := self._choosing) and len(given) == 2:
            answers = chosen(nodes).answers(out["forward"], given["reverse"][0][:12])
            out = self._out(point, {**given, "reverse": [*given["reverse"], *answers]}, site)
        return [frame for frames in out.values() for frame in frames], len(answers)

    def _out(
        self, point: WiredPoint, given: Mapping[Direction, list[bytes]], site: Site
    ) -> dict[str, list[bytes]]:
        """What comes back to the tester, by direction."""
        ways, folder = paths(point.experiment), site.state.path
        plan = point.with_memory(site.engine)
        links, out = dict(plan.links), {}
        for way in ways:
            file = folder / f"in-{way.direction}.pcap"
            write_frames(file, given[way.direction])
            links[way.source] = PlanLink(
                type="source", params={"pcap_file": str(file), "stamp": False}
            )
            out[way.direction] = folder / f"out-{way.direction}.pcap"
            links[way.sink] = _capture(way, out[way.direction])
        sent = {way.source: len(given[way.direction]) for way in ways}
        with point.engines(plan.having(links=links), site) as engine:
            _send(engine, ways, sent)
        return {direction: read_frames(file) for direction, file in out.items()}


def _capture(way: Way, file: Path) -> PlanLink:
    devargs = f"net_pcap_{way.direction},tx_pcap={file}"
    return PlanLink(type="port", params={"devargs": devargs})


def _send(engine: RunningEngine, ways: Sequence[Way], packets: Mapping[str, int]) -> None:
    """Sends so many from each source, one after the other, to the end of what comes of them. A
    source whose lcore others had for a while sends late what was due: all is compared."""
    for way in ways:
        order = {"rate_pps": _PPS, "packets": packets[way.source], "duration_s": _DONE_S}
        engine.request("start", sources={way.source: order})
        _wait_still(engine, way, [one.sink for one in ways])
        engine.request("stop")
    for way in ways:
        if (sent := engine.read().source(way.source).sent) != packets[way.source]:
            raise HeadraceError(
                f"packets to compare: {sent} of {packets[way.source]} were sent by {way.source}"
            )


def _wait_still(engine: RunningEngine, way: Way, sinks: Sequence[str]) -> None:
    """Waits until the source has sent all, and nothing more comes anywhere."""
    deadline, came, since = time.monotonic() + _DONE_S, -1, time.monotonic()
    for read in looks(engine, _LOOK_S):
        done = read.source(way.source).state == "done"
        now = sum(read.port(sink).tx_packets for sink in sinks)
        if now != came or not done:
            came, since = now, time.monotonic()
        if done and time.monotonic() - since > _STILL_S:
            return
        if time.monotonic() > deadline:
            raise HeadraceError(f"packets to compare: not sent in {_DONE_S:g} s")


def _first(frames: Counter[bytes]) -> tuple[DifferingFrame, ...]:
    return tuple(
        DifferingFrame(words=in_words(frame), frame=frame.hex()) for frame in list(frames)[:_SHOWN]
    )
