#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw studies of two chains that share two lcores, plan each, and measure all layouts there are.

    studies/plan/several.py FOLDER [--seed N] [--studies N] [--only N] [--turns N]
        [--repetitions N] [--seconds S] [--stop-after S] [--rings]

A router in front sends a part of the packets, drawn as well, to each of two chains of one function
out of five; source and sink are on the same two lcores. It is planned as `headrace plan` does: what
the parts cost is measured, and the layouts that are predicted best race. Then all layouts there are
(each cut, each segment on one of the lcores or both) are started once, with the choice once among
every sixteen of them; and those within 15 % of the best start in turn with the choice, until it is
told of each, nine times in ten, whether the choice is within 3 % of it (profile/race.py). What
counts is a layout's rate over the choice's in the same turn: absolute rates of a machine that
others share are worth little. Starts with lcores elsewhere than when costs were taken do not count.
No start of the planner's own race has a part in the judgement.

Of the 48 layouts 21 hand packets to a segment on the very lcores that they come from: one segment
instead of both does the same without that ring. These are measured with `--rings` only.

What is in FOLDER already is not measured again, so that it may go on where `--stop-after` ended it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
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
_AT_ONCE = 16  # layouts to a start of the choice
_TRIALS = 2  # of each start that counts


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
    would begin after `until` (of time.monotonic()) does not."""

    file: Path
    turns: int
    seconds: float
    repetitions: int
    until: float
    rings: bool

    @cached_property
    def _known(self) -> dict[str, Any]:
        stored = self.file.with_suffix(".json")
        if stored.exists():
            known: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
            return known
        return {"choice": None, "chosen": None, "line": None, "once": {}, "rates": {}}

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
    def _over(self) -> bool:
        return time.monotonic() > self.until

    def done(self, say: Callable[[str], None]) -> bool:
        """Goes on with it, as long as there is time."""
        if self._known["rates"] and (self._begun >= self.turns or not self._wanted()):
            return True
        run = PlanRun(self._doc, [self._experiment], self._cpus, self.repetitions, self.seconds)
        with run.bench() as bench:
            if self._known["choice"] is None:
                self._plan(bench, say)
            elif self._known["line"] is not None:
                bench.lines = {frozenset(self._cpus): self._known["line"]}
            self._sweep(bench)
            return self._judge(bench)

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

    def _carried(self, bench: Bench, name: str, trials: int) -> float | None:
        prepared = deployed(
            bench, self._doc, self._experiment, unpriced(self._cpus), self._every[name]
        )
        return rounds.carried(bench, prepared, trials)

    def _sweep(self, bench: Bench) -> None:
        """All layouts once, as shares of what the choice carries beside them."""
        once, choice = self._known["once"], self._known["choice"]
        while left := [name for name in self._every if name not in once]:
            if self._over:
                return
            base = self._carried(bench, choice, 1)
            if base is None:
                continue  # the host has lcores elsewhere: later
            for name in left[:_AT_ONCE]:
                if self._over:
                    break
                rate = self._carried(bench, name, 1)
                if rate is not None:
                    once[name] = rate / base
            self._keep()

    @property
    def _near(self) -> list[str]:
        """Those that may be the best, the likeliest first; the choice is in front."""
        once, choice = self._known["once"], self._known["choice"]
        most = max(once.values(), default=0.0)
        near = [name for name in once if name != choice and once[name] >= (1 - NEAR) * most]
        return [choice, *sorted(near, key=lambda name: -once[name])]

    @property
    def _rates(self) -> dict[str, dict[int, float]]:
        """By layout and turn."""
        kept = self._known["rates"]
        return {
            name: {int(t): rate for t, rate in kept.get(name, {}).items()} for name in self._near
        }

    @property
    def _begun(self) -> int:
        """Turns."""
        return max((int(t) for one in self._known["rates"].values() for t in one), default=-1) + 1

    def _wanted(self) -> list[str]:
        """The choice, and those of which it is not told whether it is as fast."""
        if self._known["choice"] is None or len(self._known["once"]) < len(self._every):
            return list(self._every)
        choice, *others = self._near
        if self._begun >= race.ROUNDS:
            others = race.undecided(choice, others, self._rates, CLOSE)
        return [choice, *others] if others else []

    def _judge(self, bench: Bench) -> bool:
        """Turns, each of which has the choice; False: there is no more time for another start."""
        if len(self._known["once"]) < len(self._every):
            return False
        rates = self._known["rates"]
        for turn in range(self._begun, self.turns):
            wanted = self._wanted()
            if not wanted:
                break
            for name in rounds.alternating(wanted, turn):
                if self._over:
                    return False
                rate = self._carried(bench, name, _TRIALS)
                if rate is not None:
                    rates.setdefault(name, {})[str(turn)] = rate
            self._keep()
        return True

    def result(self) -> dict[str, Any]:
        choice, *others = self._near
        leads = {one: race.lead(one, choice, self._rates) for one in others}
        ahead = {one: lead for one, lead in leads.items() if lead is not None}
        best = max(ahead, key=lambda one: ahead[one].over, default=choice)
        most = ahead.get(best)
        return {
            "study": self.file.stem, "about": self._doc.data.get("description", ""),
            "layouts": len(self._every), "in_turn": len(ahead) + 1, "choice": choice,
            "best": best if most is not None and most.over > 1 else choice,
            "over": 1.0 if most is None else most.over,
            "least": 1.0 if most is None else most.least,
            "most": 1.0 if most is None else most.most,
            "open": len(self._wanted()[1:]),
        }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    told = f"not told of {one['open']}" if one["open"] else "told of all, nine times in ten"
    return (
        f"{one['study']}: {one['about']}; choice {one['choice']}; of {one['layouts']} layouts "
        f"{one['in_turn']} in turn; the best of the others by the choice: {one['over']:.3f} "
        f"({one['least']:.3f} to {one['most']:.3f}), best {one['best']}; {told}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--studies", type=int, default=12)
    parser.add_argument("--only", type=int, help="measure this one")
    parser.add_argument("--turns", type=int, default=8, help="at most, of what is not told")
    parser.add_argument("--repetitions", type=int, default=2, help="trials per measured cost")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a trial")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; go on later")
    parser.add_argument("--rings", action="store_true", help="between the same lcores, too")
    given = parser.parse_args()
    until = time.monotonic() + given.stop_after
    data = (given.folder / "data").resolve()
    data.mkdir(parents=True, exist_ok=True)
    draw, results = random.Random(given.seed), []
    for number in range(1, given.studies + 1):
        spec = draw_study(draw, number, data)
        file = given.folder / f"{spec['name']}.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        one = Measuring(file, given.turns, given.seconds, given.repetitions, until, given.rings)
        if given.only in (None, number) and time.monotonic() < until and one.done(say):
            results.append(one.result())
            print(line(results[-1]), flush=True)
    close = sum(1 - 1 / one["over"] <= CLOSE for one in results)
    told = sum(not one["open"] for one in results)
    print(
        f"{close} of {len(results)} choices within {CLOSE:.0%} of the measured best of all "
        f"layouts; {told} of these judgements told nine times in ten"
    )
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
