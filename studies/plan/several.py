#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw studies of two chains that share two lcores, plan each, and measure all layouts there are.

    studies/plan/several.py FOLDER [--seed N] [--studies N] [--only N] [--turns N]
        [--repetitions N] [--seconds S] [--stop-after S] [--rings]

A router in front sends a part of the packets, drawn as well, to each of two chains of one function
out of five; source and sink are on the same two lcores. It is planned as `headrace plan` does: what
the parts cost is measured, and the layouts that are predicted best race. Then all layouts there are
(each cut, each segment on one of the lcores or both) are started, in turns that each have the
choice: every layout in one of them, and then those in all that follow which are within 15 % of the
best by what is known, until it is told of each, nine times in ten, whether the choice is within 3 %
of it, or of one that it is not (profile/race.py). What counts is a layout's rate over the choice's
in the same turn: absolute rates of a machine that others share are worth little. Starts with lcores
elsewhere than when costs were taken do not count; while the host has them elsewhere, other studies
go on, and where none can the next one is planned, as it is best there. No start of the planner's
own race has a part in the judgement.

Of the 48 layouts 21 hand packets to a segment on the very lcores that they come from: one segment
instead of both does the same without that ring. These are measured with `--rings` only.

What was measured is in FOLDER, start by start, and is not measured again, so that it may go on
where `--stop-after` ended it. The studies of which there is anything are judged each time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from draw import (
    BYTES_PER_FLOW,
    FRAMES,
    MEMORY_MB,
    PARTS,
    SERVERS,
    balanced,
    function,
    log_uniform,
    servers,
)

from headrace.cli.plan import PlanRun
from headrace.engine.place import usable_cpus
from headrace.layout.goals import WantedLayout
from headrace.layout.layout import Layout
from headrace.profile import race, rounds
from headrace.profile.chain_costs import unpriced
from headrace.profile.layout_point import deployed
from headrace.profile.planner import Planner
from headrace.profile.point import Bench
from headrace.spec import document
from headrace.spec.profile import Settings
from headrace.spec.study import expand

FUNCTIONS = {"acl": "pass", "firewall": "pass", "l2fwd": "out", "lb": "out", "nat": "out"}  # edges
CLOSE, NEAR = 0.03, 0.15  # the choice is as good as the best; a layout may be the best
DRAIN_S = 0.02  # queues are short, and their end is waited for
_AT_ONCE = 13  # layouts to a start of the choice, where each has its first one
_TRIALS = 2  # of each later start
_PATIENCE_S = 3.0  # for lcores that are elsewhere: then another study goes on


def draw_study(draw: random.Random, number: int, folder: Path) -> dict[str, Any]:
    """Router, the first chain's function, the second one's."""
    first, second = draw.sample(sorted(FUNCTIONS), 2)
    settings = Settings(
        state=log_uniform(draw, 1_000, 100_000), rules=log_uniform(draw, 10, 1_000),
        frame_bytes=draw.choice(FRAMES), burst=32, skew=0.0,
    )  # fmt: skip
    parts = draw.randrange(1, PARTS)
    routes = [{"prefix": f"{one}/32", "next_hop": int(i < parts)} for i, one in enumerate(SERVERS)]
    router = {"fib": "lpm", "routes": routes, "next_hops": [{"edge": 0}, {"edge": 1}]}
    nodes = []
    for name in (first, second):
        [(nf, params)] = function(name, settings, folder, None, False).items()
        nodes.append({"name": name, "nf": nf, "params": params})
    if "lb" in (first, second):  # of any of the addresses
        [balancer] = [one for one in nodes if one["nf"] == "lb"]
        [vip] = balancer["params"]["vips"]
        balancer["params"]["vips"] = [{**vip, **balanced(i)} for i in range(PARTS)]
    nodes[0]["to"] = {FUNCTIONS[first]: "out"}
    flows = {"count": settings.state, "vary": ["src_ip", "src_port"], "order": "random"}
    return {
        "name": f"several-{number:02}",
        "description": f"{parts} of {PARTS} packets go to {second}, the others to {first}",
        "chain": [
            {"name": "split", "nf": "l3fwd", "params": router, "to": {"out1": second}},
            *nodes,
        ],
        "deployment": {
            "lcores": {"traffic": [0, 1], "shared": True},
            "memory_mb": MEMORY_MB + 3 * settings.state * BYTES_PER_FLOW // 2**20,
        },
        "workload": {
            "frame": settings.frame_bytes, "flows": flows, "dst_ips_file": str(servers(folder)),
        },
        "measure": {"drain": DRAIN_S},
    }  # fmt: skip


def layouts(functions: int, cpus: Sequence[int], rings: bool) -> list[Layout]:
    """Each cut, and each segment on either lcore or both; `rings`: between the same lcores, too."""
    first, last = cpus[0], cpus[-1]
    every = []
    for bars in itertools.product((False, True), repeat=functions - 1):
        ends = [i + 1 for i, bar in enumerate(bars) if bar] + [functions]
        sizes = tuple(b - a for a, b in zip([0, *ends[:-1]], ends, strict=True))
        every += [
            Layout(sizes, on)
            for on in itertools.product(((first,), (last,), (first, last)), repeat=len(sizes))
            if rings or all(a != b for a, b in itertools.pairwise(on))
        ]
    return every


@dataclass
class Measuring:
    """One study. What was measured of it is in its folder, and is not measured again; a start that
    would begin, or wait, after `until` (of time.monotonic()) does not."""

    file: Path
    turns: int
    seconds: float
    repetitions: int
    until: float
    rings: bool

    @cached_property
    def _known(self) -> dict[str, Any]:
        """`turns`: what each layout carried, by its text."""
        stored = self.file.with_suffix(".json")
        if stored.exists():
            known: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
            return known
        return {"choice": None, "chosen": None, "line": None, "turns": []}

    def _keep(self) -> None:
        text = json.dumps(self._known, indent=1) + "\n"
        self.file.with_suffix(".json").write_text(text, encoding="utf-8")

    @cached_property
    def _cpus(self) -> list[int]:
        return usable_cpus()

    @property
    def _every(self) -> dict[str, Layout]:
        """With the choice, whichever that is."""
        names = [node.name for node in self._experiment.nodes]
        every = layouts(len(names), self._cpus, self.rings)
        if (chosen := self._known["chosen"]) is not None:
            cuts, lcores = chosen
            every.append(Layout(tuple(cuts), tuple(tuple(on) for on in lcores)))
        return {one.text(names): one for one in every}

    @cached_property
    def _doc(self) -> document.Document:
        return document.load(self.file)

    @cached_property
    def _experiment(self) -> Any:
        [one] = expand(self._doc)
        return one

    @property
    def _left_s(self) -> float:
        return self.until - time.monotonic()

    @property
    def planned(self) -> bool:
        return self._known["choice"] is not None

    @property
    def finished(self) -> bool:
        return self.planned and not self._next()

    def go_on(self, say: Callable[[str], None]) -> bool:
        """Goes on with it, as long as there is time and the host has lcores where they were when
        costs were taken. False: it has not."""
        if self._left_s <= 0 or self.finished:
            return True
        run = PlanRun(self._doc, [self._experiment], self._cpus, self.repetitions, self.seconds)
        with run.bench() as bench:
            if not self.planned:
                self._plan(bench, say)
            elif self._known["line"] is not None:
                bench.lines = {frozenset(self._cpus): self._known["line"]}
            there = True
            while there and self._left_s > 0 and (wanted := self._next()):
                there = self._turn(bench, wanted)
        return there

    def _plan(self, bench: Bench, say: Callable[[str], None]) -> None:
        wanted = WantedLayout()
        planner = Planner(bench, self._doc, self._cpus, wanted, False, False, say)
        plan, _ = planner.plan(self._experiment)
        [best] = [one.segments for one in plan.layouts if one.role == "best"]
        chosen = Layout(
            tuple(len(one.functions) for one in best), tuple(tuple(one.lcores) for one in best)
        )
        name = chosen.text([node.name for node in self._experiment.nodes])
        self._known |= {
            "choice": name, "chosen": (chosen.cuts, chosen.lcores), "line": plan.line_cycles,
        }  # fmt: skip
        self._keep()

    def _turn(self, bench: Bench, wanted: Sequence[str]) -> bool:
        """The choice and these; without the choice it is none. False: lcores are elsewhere."""
        trials = 1 if self._missing else _TRIALS
        base = self._carried(bench, self._known["choice"], trials)
        if base is None:
            return False
        turn = {self._known["choice"]: base}
        self._known["turns"].append(turn)
        for name in rounds.alternating(wanted, len(self._known["turns"])):
            if self._left_s <= 0:
                return True
            rate = self._carried(bench, name, trials)
            if rate is None:
                return False
            turn[name] = rate
            self._keep()
        return True

    def _carried(self, bench: Bench, name: str, trials: int) -> float | None:
        bench.waited_s += bench.patience_s - min(_PATIENCE_S, self._left_s)
        prepared = deployed(
            bench, self._doc, self._experiment, unpriced(self._cpus), self._every[name]
        )
        return rounds.carried(bench, prepared, trials)

    @property
    def _rates(self) -> dict[str, dict[int, float]]:
        """By layout and turn."""
        rates: dict[str, dict[int, float]] = {name: {} for name in self._every}
        for number, turn in enumerate(self._known["turns"]):
            for name, rate in turn.items():
                rates[name][number] = rate
        return rates

    @property
    def _missing(self) -> list[str]:
        """Layouts that have not been started."""
        return [name for name, rates in self._rates.items() if not rates]

    def _leads(self) -> dict[str, race.Lead]:
        """Over the choice, of each other one that was started beside it."""
        choice, rates = self._known["choice"], self._rates
        leads = {one: race.lead(one, choice, rates) for one in rates if one != choice}
        return {one: lead for one, lead in leads.items() if lead is not None}

    def _near(self) -> dict[str, race.Lead]:
        """Those that may be the best, the likeliest first."""
        leads = self._leads()
        least = (1 - NEAR) * max([1.0, *(lead.over for lead in leads.values())])
        near = [(one, lead) for one, lead in leads.items() if lead.over >= least]
        return dict(sorted(near, key=lambda pair: -pair[1].over))

    def _open(self) -> list[str]:
        """Those of which it is not told whether the choice is as good."""
        rates, near = self._rates, self._near()
        few = [one for one in near if len(rates[one]) < race.ROUNDS]
        told = race.undecided(self._known["choice"], list(near), rates, CLOSE)
        return [one for one in near if one in few or one in told]

    @property
    def _beyond(self) -> bool:
        """It is told of one that the choice is not as good."""
        bound, rates = 1 / (1 - CLOSE), self._rates
        return any(
            lead.least > bound and len(rates[one]) >= race.ROUNDS
            for one, lead in self._near().items()
        )

    def _next(self) -> list[str]:
        """What the next turn has beside the choice; nothing: all is told, or enough was tried."""
        if missing := self._missing:
            return [one for one in missing if one != self._known["choice"]][:_AT_ONCE] or missing
        if self._beyond or len(self._known["turns"]) >= self.turns:
            return []
        return self._open()

    def result(self) -> dict[str, Any]:
        near, choice = self._near(), self._known["choice"]
        best = next(iter(near), choice)
        lead = near.get(best, race.Lead(1.0, 1.0, 1.0))
        verdict = "within" if not self._open() else "open"
        if self._missing:
            verdict = "open"
        if self._beyond:
            verdict = "beyond"
        return {
            "study": self.file.stem, "about": self._doc.data.get("description", ""),
            "layouts": len(self._every), "missing": len(self._missing), "near": len(near),
            "turns": len(self._known["turns"]), "choice": choice, "best": best,
            "over": lead.over, "least": lead.least, "most": lead.most,
            "open": len(self._open()), "verdict": verdict,
        }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    told = {
        "within": f"within {CLOSE:.0%} of all, nine times in ten",
        "beyond": f"more than {CLOSE:.0%} behind, nine times in ten",
        "open": f"not told of {one['open']}, {one['missing']} not started",
    }[one["verdict"]]
    return (
        f"{one['study']}: {one['about']}; choice {one['choice']}; of {one['layouts']} layouts "
        f"{one['near']} near in {one['turns']} turns; the best other one, {one['best']}, by the "
        f"choice: {one['over']:.3f} ({one['least']:.3f} to {one['most']:.3f}); {told}"
    )


def measure(studies: Sequence[Measuring], until: float) -> None:
    """Those that are planned first; where the host lets none of them go on, the next one."""
    while time.monotonic() < until:
        begun = [one for one in studies if one.planned and not one.finished]
        if any([one.go_on(say) for one in begun]):
            continue
        new = next((one for one in studies if not one.planned), None)
        if new is not None:
            new.go_on(say)
        elif not begun:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--studies", type=int, default=12)
    parser.add_argument("--only", type=int, help="measure this one")
    parser.add_argument("--turns", type=int, default=12, help="at most")
    parser.add_argument("--repetitions", type=int, default=1, help="trials per measured cost")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a trial")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; go on later")
    parser.add_argument("--rings", action="store_true", help="between the same lcores, too")
    given = parser.parse_args()
    until = time.monotonic() + given.stop_after
    data = (given.folder / "data").resolve()
    data.mkdir(parents=True, exist_ok=True)
    draw, studies = random.Random(given.seed), []
    for number in range(1, given.studies + 1):
        spec = draw_study(draw, number, data)
        file = given.folder / f"{spec['name']}.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        if given.only in (None, number):
            studies.append(
                Measuring(file, given.turns, given.seconds, given.repetitions, until, given.rings)
            )
    measure(studies, until)
    results = [one.result() for one in studies if one.planned]
    for one in results:
        print(line(one), flush=True)
    count = Counter(one["verdict"] for one in results)
    print(
        f"{len(results)} of {given.studies} studies: {count['within']} choices within {CLOSE:.0%} "
        f"of the measured best of all layouts, {count['beyond']} not, {count['open']} not told"
    )
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
