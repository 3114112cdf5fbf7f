#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw deployments, predict each before it is measured, and say how right the predictions were.

    studies/predict/verify.py FOLDER [--seed N] [--deployments N] [--server NAME ...] [--within S]

A line that another lcore has written takes what it takes until the host moves a virtual CPU, and
what lcores hand to each other follows it (docs/simulate.md). So each deployment is predicted for
every described server, and held against the one whose lines take as long as in that trial itself,
or as before and behind it where the trial does not say. It is left out of the means, and said, if
they took several times. A prediction is for the clock that the lcores had.
Throughput is what other work left; what the chain can carry by the
cycles of its packets has none of it.

Each prediction is in FOLDER as NAME.predicted.json before NAME is measured; what is there already
is not done again, so that an interrupted study goes on where it was. `--only predict` measures
nothing, and `--only measure` needs the machine for itself: `--within 170` begins no deployment that
would take it beyond so many seconds, so that it can be taken in turns. Without `--only` all is done
that is left, and said.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml
from draw import study

from headrace.analyse.capacity import parts_of
from headrace.errors import HeadraceError
from headrace.host.programs import find_engine, shipped
from headrace.model.lines_between import WHOLE, same_state
from headrace.record.bundle import Bundle
from headrace.record.rows import Result
from headrace.report.checks import Check, at_least, at_most
from headrace.spec.described import DescribedServer
from headrace.spec.server_file import read_server

Json = dict[str, Any]
SERVERS = ("epyc-zen5", "epyc-zen5-apart")
LOADS = (0.5, 0.9)  # of the predicted throughput
KINDS = ("inline", "hosted")
ERROR_MEAN, ERROR_MOST = 0.05, 0.15  # of the throughput
WITHIN = 0.25  # of a measured percentile
SECONDS = 120  # that a deployment is given
DONE = {"predict": "predicted", "measure": "measured"}  # by the part of it that writes the file


@dataclass(frozen=True)
class Verified:
    """A deployment. Errors are relative, predicted over measured; `p50`, `p99` by load."""

    name: str
    kind: str
    server: str
    line: float  # TSC cycles
    moved: bool  # lines took another time in between
    clock: float  # that its lcores had, of the described one
    predicted_pps: float
    measured_pps: float
    chain_pps: float | None  # that the chain can carry by its cycles; None: not told
    predicted_chain_pps: float
    p50: tuple[float, ...]
    p99: tuple[float, ...]
    verdict: str

    @property
    def error(self) -> float:
        return self.predicted_pps / self.measured_pps - 1

    @property
    def quiet_error(self) -> float | None:
        return self.predicted_chain_pps / self.chain_pps - 1 if self.chain_pps else None


def calibrated() -> Json:
    """What `headrace-calibrate` says of lines that another lcore has written, and of caches."""
    program = find_engine().parent / "calibrate" / "headrace-calibrate"
    if not program.exists():
        program = find_engine().with_name("headrace-calibrate")
    done = subprocess.run([program, "--only", "transfer"], capture_output=True, text=True)
    if done.returncode:
        raise HeadraceError(f"{program.name}: {done.stderr.strip().splitlines()[-1]}")
    told: Json = json.loads(done.stdout)
    return told


def line_cycles() -> tuple[float, float]:
    """TSC cycles of a line that another lcore has written, in the median of all pairs; TSC Hz."""
    told = calibrated()
    return median(one["modified"]["median"] for one in told["transfer"]), float(told["tsc_hz"])


def unlike(server: DescribedServer) -> Iterator[str]:
    """Caches of the description that this machine does not have: it describes another one."""
    told = calibrated()
    sizes = {"L1": told["l1_bytes"], "L2": told["l2_bytes"], "L3": told["llc_bytes"]}
    for level in server.levels:
        kib = sizes.get(level.name, 0) / 1024
        if level.kib is not None and kib and level.kib.value != kib:
            yield f"{server.name}: {level.name} of {level.kib.value:g} KiB, here {kib:g}"


def nearest(servers: Sequence[tuple[Path, DescribedServer]], cycles: float, hz: float) -> Path:
    """The described server whose lines take as long, by their ratio."""

    def apart(server: DescribedServer) -> float:
        assert server.transfer_cycles is not None
        theirs = server.transfer_cycles.value * hz / (server.clock_mhz.value * 1e6)
        return max(theirs / cycles, cycles / theirs)

    return min(servers, key=lambda one: apart(one[1]))[0]


def run(spec: Path, *more: str) -> list[Result]:
    """The results of a run."""
    return ran(spec, *more)[1]


def ran(spec: Path, *more: str) -> tuple[Path, list[Result]]:
    """A run's bundle and its results."""
    program = Path(sys.executable).with_name("headrace")
    number = 1
    while (out := spec.with_suffix(f".{number}")).exists():
        number += 1
    command = [str(program), "run", str(spec), "--out", str(out), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise HeadraceError(last[0])
    return out, Bundle(out).results()


def best_of(results: Sequence[Result]) -> Result:
    return next(one for one in results if one.goal == "max")


def chain_of(result: Result) -> float | None:
    """What the chain can carry by the cycles of its packets: other work's time is not in it. None:
    an lcore was away for so long that they say nothing."""
    parts = [one for one in parts_of(result) if one.role == "chain" and one.cpus]
    known = [one.capacity_pps for one in parts if one.capacity_pps]
    return min(known) if known and len(known) == len(parts) else None


def lines_of(told: Json, best: Result) -> tuple[float, bool]:
    """What lines took in the trial, and whether they took several times."""
    [trial] = [one for one in Bundle(Path(told["bundle"])).trials() if one.trial == best.trial]
    if trial.line_cycles is not None:
        return trial.line_cycles, trial.line_share is not None and trial.line_share < WHOLE
    before, behind = float(told["before"]), float(told["behind"])
    return before, not same_state(before, behind)


def clock_hz(result: Result) -> float | None:
    """The clock of the lcores, by what an addition took."""
    if result.counters is None:
        return None
    paces = [worker.pace for worker in result.counters.workers if worker.pace]
    return result.counters.tsc_hz / median(paces) if paces else None


def at_clock(folder: Path, name: str, server: Path, clock: float) -> Path:
    """The described server with lcores of another clock."""
    told = yaml.safe_load(server.read_text(encoding="utf-8"))
    told["clock_mhz"][0] *= clock
    if "costs" in told:
        told["costs"] = str((server.parent / told["costs"]).resolve())
    file = folder / f"{name}.server.yaml"
    file.write_text(yaml.dump(told, sort_keys=False), encoding="utf-8")
    return file


def percentiles(
    predicted: Sequence[Result], measured: Sequence[Result], name: str
) -> Iterator[float]:
    for theirs, ours in zip(
        *(sorted(some, key=lambda one: one.load_pps) for some in (predicted, measured)), strict=True
    ):
        if theirs.latency_ns and ours.latency_ns:
            yield getattr(theirs.latency_ns, name) / getattr(ours.latency_ns, name) - 1


@dataclass(frozen=True)
class Verification:
    """One deployment's files."""

    folder: Path
    name: str
    spec: Json
    servers: Sequence[tuple[Path, DescribedServer]]

    def predicted(self, server: Path) -> float:
        """Packets/s, before anything was measured."""
        return self._predicted(server)[0]

    def _predicted(self, server: Path) -> tuple[float, float]:
        """Packets/s as fast as possible, and what loads are parts of: where then nothing comes
        through, what the chain carries."""
        file = self.folder / f"{self.name}.predicted.json"
        told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if str(server) not in told:
            best = best_of(run(self._written("asked", []), "--on", str(server)))
            loaded = best.throughput_pps or chain_of(best) or 0.0
            told[str(server)] = best.throughput_pps, loaded
            file.write_text(json.dumps(told, indent=1), encoding="utf-8")
        most, loaded = told[str(server)]
        return float(most), float(loaded)

    def measured(self) -> Json:
        """Where its results are, and what lines took before and behind them."""
        file = self.folder / f"{self.name}.measured.json"
        if not file.exists():
            before, hz = line_cycles()
            server = nearest(self.servers, before, hz)
            loads = [round(self._predicted(server)[1] * part) for part in LOADS]
            spec = self._written("loads", loads)
            bundle, _ = ran(spec)
            kept = {"bundle": str(bundle), "server": str(server), "before": before,
                    "behind": line_cycles()[0], "loads": loads}  # fmt: skip
            file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def verified(self) -> Verified:
        """What was predicted, for the clock that the lcores had, beside what was measured."""
        kept = self.folder / f"{self.name}.verified.json"
        if kept.exists():
            given = json.loads(kept.read_text(encoding="utf-8"))
            return Verified(**{**given, "p50": tuple(given["p50"]), "p99": tuple(given["p99"])})
        one = self._held_against(self.measured())
        kept.write_text(json.dumps(asdict(one), indent=1), encoding="utf-8")
        return one

    def _held_against(self, told: Json) -> Verified:
        results = Bundle(Path(told["bundle"])).results()
        best = best_of(results)
        if not best.throughput_pps:
            raise HeadraceError("nothing came through")
        line, moved = lines_of(told, best)
        server = (
            nearest(self.servers, line, best.counters.tsc_hz)
            if best.counters
            else Path(told["server"])
        )
        hz = clock_hz(best)
        clock = hz / (dict(self.servers)[server].clock_mhz.value * 1e6) if hz else 1.0
        there = at_clock(self.folder, self.name, server, clock)
        predicted = run(self._written("loads", told["loads"]), "--on", str(there))
        delays = [[one for one in some if one.goal != "max"] for some in (predicted, results)]
        return Verified(
            self.name, "hosted" if "hosting" in self.spec["deployment"] else "inline",
            server.stem, line, moved, clock,
            self.predicted(server) * clock, best.throughput_pps, chain_of(best),
            chain_of(best_of(predicted)) or 0.0, tuple(percentiles(*delays, "p50")),
            tuple(percentiles(*delays, "p99")), best.audit.verdict,
        )  # fmt: skip

    def _written(self, kind: str, loads: list[int]) -> Path:
        file = self.folder / f"{self.name}-{kind}.yaml"
        measure = {**self.spec["measure"], **({"loads": loads} if loads else {})}
        spec = {"name": self.name, **self.spec, "measure": measure}
        file.write_text(yaml.dump(spec, sort_keys=False), encoding="utf-8")
        return file


def line(one: Verified) -> str:
    delays = ", ".join(
        f"{name} {', '.join(f'{error:+.0%}' for error in errors) or 'none'}"
        for name, errors in (("p50", one.p50), ("p99", one.p99))
    )
    quiet = one.quiet_error
    chain = "" if quiet is None else f" (the chain by its cycles {quiet:+.1%})"
    moved = "; the host moved its lcores, left out" if one.moved else ""
    return (
        f"{one.name} {one.kind}: {one.predicted_pps / 1e6:.3f} Mpps predicted, "
        f"{one.measured_pps / 1e6:.3f} measured, {one.error:+.1%}{chain}; at half and nine tenths "
        f"{delays}; {one.verdict}; a line takes {one.line:.0f} cycles, "
        f"the clock is {one.clock:.2f} of the described{moved}"
    )


def summary(every: Sequence[Verified]) -> Iterator[str]:
    steady = [one for one in every if not one.moved]
    for kind in KINDS:
        errors = [abs(one.error) for one in steady if one.kind == kind]
        if errors:
            yield (
                f"{kind}, {len(errors)} deployments: throughput mean error {mean(errors):.1%}, "
                f"median {median(errors):.1%}, most {max(errors):.1%}"
            )
    quiet = [abs(error) for one in steady if (error := one.quiet_error) is not None]
    if quiet:
        yield (
            f"chains by their cycles, {len(quiet)}: mean error {mean(quiet):.1%}, median "
            f"{median(quiet):.1%}, most {max(quiet):.1%}"
        )
    for name, of in PERCENTILES.items():
        errors = [abs(error) for one in steady for error in of(one)]
        if errors:
            within = sum(error <= WITHIN for error in errors)
            yield (
                f"{name}, {len(errors)} trials: mean error {mean(errors):.0%}, most "
                f"{max(errors):.0%}, within {WITHIN:.0%} in {within}"
            )


PERCENTILES: dict[str, Callable[[Verified], tuple[float, ...]]] = {
    "p50": lambda one: one.p50,
    "p99": lambda one: one.p99,
}


def goals(every: Sequence[Verified], asked: int) -> Iterator[Check]:
    steady = [one for one in every if not one.moved]
    errors, why = [abs(one.error) for one in steady], "nothing was measured"
    yield at_least("deployments held against", asked, float(len(steady)), lambda v: f"{v:.0f}")
    yield at_most("throughput, mean error", ERROR_MEAN, mean(errors) if errors else None, why=why)
    yield at_most("throughput, most", ERROR_MOST, max(errors, default=None), why=why)
    for name, of in PERCENTILES.items():
        apart = [abs(error) for one in steady for error in of(one)]
        yield at_most(f"{name}, most", WITHIN, max(apart, default=None), why=why)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--deployments", type=int, default=24)
    parser.add_argument("--server", action="append", help="described servers to choose from")
    parser.add_argument("--within", type=float, help="seconds; none is begun that takes longer")
    parser.add_argument("--only", choices=("predict", "measure"), help="a part of it")
    given = parser.parse_args()
    if given.deployments < 1:
        parser.error(f"--deployments {given.deployments}: allowed: at least 1")
    given.folder.mkdir(parents=True, exist_ok=True)
    drawn = study(given.seed, given.deployments)
    servers = []
    for name in given.server or SERVERS:
        file = Path(name) if name.endswith(".yaml") else shipped("servers") / f"{name}.yaml"
        servers.append((file, read_server(file)[1]))
    for problem in (one for _, server in servers for one in unlike(server)):
        print(f"{problem}: it describes another machine", flush=True)
    every, start, longest = [], time.monotonic(), 0.0
    for name, group in drawn["groups"].items():
        began = time.monotonic()
        if given.within is not None and began - start + longest > given.within:
            print("the others are for another turn", flush=True)
            break
        spec = {**group["spec"], "warmup": "0.1 s", "measure": drawn["measure"]}
        one = Verification(given.folder, name, spec, servers)
        try:
            if given.only is not None:
                new = not (given.folder / f"{name}.{DONE[given.only]}.json").exists()
                predict = given.only == "predict"
                told = {f.stem: one.predicted(f) for f, _ in servers} if predict else one.measured()
                print(f"{name}: {json.dumps(told)}", flush=True)
                longest = max(longest, (time.monotonic() - began) * new)
                continue
            every.append(one.verified())
        except (HeadraceError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", flush=True)
            continue
        longest = max(longest, time.monotonic() - began)
        print(line(every[-1]), flush=True)
    if given.only is not None:
        return 0
    print("\n".join([*summary(every), *(one.line() for one in goals(every, given.deployments))]))
    return 0 if len(every) == given.deployments else 1


if __name__ == "__main__":
    sys.exit(main())
