#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw studies of two chains that share two lcores, plan each, and measure every layout in turn.

    studies/plan/several.py FOLDER [--seed N] [--studies N] [--only N] [--turns N]
        [--repetitions N] [--seconds S] [--stop-after S]

A router in front sends a part of the packets, drawn as well, to each of two chains of one function
out of five; source and sink are on the same two lcores. `headrace plan` measures what the parts
cost and chooses; then all layouts there are (each cut, each segment on one of the lcores or both)
are measured once, and those within 15 % of the best, and the choice, in turn. What counts is the
median over the turns of a layout's rate by the choice's in the same turn: absolute rates of a
machine that others share are worth little. What is in FOLDER already is not measured again, so that
it may go on where `--stop-after` ended it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from draw import FRAMES, PARTS, SERVERS, balanced, function, log_uniform, servers

from headrace.spec.profile import Settings

FUNCTIONS = {"acl": "pass", "firewall": "pass", "l2fwd": "out", "lb": "out", "nat": "out"}  # edges
CLOSE, NEAR = 0.03, 0.15  # the choice is as good as the best; a layout may be the best
LCORES = ([0], [1], [0, 1])
_AT_ONCE = 16  # layouts that one run measures


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
        "deployment": {"lcores": {"traffic": [0, 1], "shared": True}, "memory_mb": 1024},
        "workload": {
            "frame": settings.frame_bytes, "flows": flows, "dst_ips_file": str(servers(folder)),
        },
    }  # fmt: skip


def layouts(names: list[str]) -> list[dict[str, Any]]:
    """Each cut, and each segment on either lcore or both."""
    every = []
    for bars in itertools.product((False, True), repeat=len(names) - 1):
        ends = [i + 1 for i, bar in enumerate(bars) if bar] + [len(names)]
        cut = [names[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        for on in itertools.product(LCORES, repeat=len(cut)):
            text = " | ".join(
                f"{'+'.join(segment)} @{','.join(map(str, cpus))}"
                for segment, cpus in zip(cut, on, strict=True)
            )
            every.append({"name": text, "segments": cut, "lcores": list(on)})
    return every


def headrace(*arguments: str) -> str:
    """What it prints. It is a program of its own, as users run it."""
    program = Path(sys.executable).with_name("headrace")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise SystemExit(f"several.py: headrace {arguments[0]}: {last[0]}")
    return done.stdout


def measured(
    spec: dict[str, Any], some: list[dict[str, Any]], seconds: float, file: Path
) -> dict[str, float]:
    """Packets/s by layout, each as fast as its rings let it."""
    deployment = {**spec["deployment"], "execution": some}
    study = {
        **spec, "deployment": deployment, "repetitions": 1, "warmup": 0,
        "measure": {"max": True, "trial": seconds},
    }  # fmt: skip
    file.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    out = file.with_suffix("") / time.strftime("%H%M%S")
    rows = json.loads(headrace("run", str(file), "--out", str(out), "--json"))["results"]
    return {row["execution"]: row["throughput_pps"] for row in rows}


@dataclass
class Measuring:
    """One study. What was measured of it is in its folder, and is not measured again; a step that
    would begin after `until` (of time.monotonic()) does not."""

    file: Path
    turns: int
    seconds: float
    repetitions: int
    until: float

    @cached_property
    def _known(self) -> dict[str, Any]:
        stored = self.file.with_suffix(".json")
        if stored.exists():
            known: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8"))
            return known
        return {"choice": None, "once": {}, "turns": []}

    def _keep(self) -> None:
        text = json.dumps(self._known, indent=1) + "\n"
        self.file.with_suffix(".json").write_text(text, encoding="utf-8")

    @cached_property
    def _every(self) -> list[dict[str, Any]]:
        return layouts([node["name"] for node in self._spec["chain"]])

    @cached_property
    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        return spec

    def done(self) -> bool:
        """Goes on with it, as long as there is time."""
        known = self._known
        while len(known["turns"]) < self.turns:
            if time.monotonic() > self.until:
                return False
            left = [one for one in self._every if one["name"] not in known["once"]]
            if known["choice"] is None:
                known["choice"] = self._choice()
            elif left:
                known["once"] |= self._once(left[:_AT_ONCE])
            else:
                known["turns"].append(self._measured(self._near, "turn"))
            self._keep()
        return True

    def _once(self, some: list[dict[str, Any]]) -> dict[str, float]:
        """Rates by the choice's in the same run."""
        choice = self._known["choice"]
        beside = [one for one in self._every if one["name"] == choice and one not in some]
        rates = self._measured([*beside, *some], "once")
        return {one["name"]: rates[one["name"]] / rates[choice] for one in some}

    def _choice(self) -> str:
        best = self.file.with_name(f"{self.file.stem}-best.yaml")
        headrace(
            "plan", str(self.file), "--out", str(best), "--json", "--seconds", str(self.seconds),
            "--repetitions", str(self.repetitions),
        )  # fmt: skip
        chosen = yaml.safe_load(best.read_text(encoding="utf-8"))["deployment"]["execution"]
        [choice] = [
            one["name"] for one in self._every
            if (one["segments"], one["lcores"]) == (chosen["segments"], chosen["lcores"])
        ]  # fmt: skip
        return str(choice)

    def _measured(self, some: list[dict[str, Any]], what: str) -> dict[str, float]:
        file = self.file.with_name(f"{self.file.stem}-{what}.yaml")
        return measured(self._spec, some, self.seconds, file)

    @property
    def _near(self) -> list[dict[str, Any]]:
        """The choice, and what may be better: in another order in each turn."""
        once, choice = self._known["once"], self._known["choice"]
        most = max(once.values())
        near = [
            one for one in self._every
            if one["name"] == choice or once[one["name"]] >= (1 - NEAR) * most
        ]  # fmt: skip
        at = len(self._known["turns"]) % len(near)
        return near[at:] + near[:at]

    def result(self) -> dict[str, Any]:
        turns, choice = self._known["turns"], self._known["choice"]
        ratios = {name: [turn[name] / turn[choice] for turn in turns] for name in turns[0]}
        best = max(ratios, key=lambda name: median(ratios[name]))
        return {
            "study": self.file.stem, "about": self._spec.get("description", ""),
            "layouts": len(self._every), "in_turn": len(ratios), "turns": len(turns),
            "choice": choice, "best": best, "loss": 1 - 1 / median(ratios[best]),
            "least": min(ratios[best]), "most": max(ratios[best]),
        }  # fmt: skip


def line(one: dict[str, Any]) -> str:
    return (
        f"{one['study']}: {one['about']}; choice {one['choice']}; best of {one['layouts']}, "
        f"{one['in_turn']} of them in {one['turns']} turns: {one['best']}, by which the choice is "
        f"{one['loss']:.1%} slower (its turns: {one['least']:.2f} to {one['most']:.2f})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--studies", type=int, default=12)
    parser.add_argument("--only", type=int, help="measure this one")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=4, help="trials per measured cost")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a trial")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; go on later")
    given = parser.parse_args()
    until = time.monotonic() + given.stop_after
    data = (given.folder / "data").resolve()
    data.mkdir(parents=True, exist_ok=True)
    draw, results = random.Random(given.seed), []
    for number in range(1, given.studies + 1):
        spec = draw_study(draw, number, data)
        file = given.folder / f"{spec['name']}.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        one = Measuring(file, given.turns, given.seconds, given.repetitions, until)
        if given.only in (None, number) and one.done():
            results.append(one.result())
            print(line(results[-1]), flush=True)
    close = sum(one["loss"] <= CLOSE for one in results)
    print(
        f"{close} of {len(results)} choices within {CLOSE:.0%} of the measured best of all layouts"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
