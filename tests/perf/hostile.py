# SPDX-License-Identifier: Apache-2.0
"""How long a VNF's routes take to be learnt beside a routing peer that attacks, over what they take
beside none. What a VNF that attacks its link takes from a neighbour: hostile_links.py.

On its own: `python -m perf.hostile links|routes|meanwhile|sweeps [--turns N]`, in tests/.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

from headrace.host.cpu_time import shield
from perf import hostile_links
from perf.stats import Sample
from support import route_attacks
from support.engine import Engine, free_cpus

ROUTES, TABLES = 500_000, 3  # a table of a tenth of a second, so often at once
STEADY_S = 5.0  # of an attack, before: who has sent much lately comes last
BEGUN_S = 0.5  # of tables, before an attack begins


def _tables_s(engine: Engine, port: int) -> tuple[float, float]:
    """How long tables take to be known, and to be gone, all together."""
    took = [route_attacks.announced_s(engine, port, 1, ROUTES) for _ in range(TABLES)]
    return sum(known for known, _ in took), sum(gone for _, gone in took)


def routes(
    binary: Path, folder: Path, cpus: list[int], turns: int
) -> dict[str, tuple[Sample, Sample]]:
    """By attack: how long tables take to be known, and to be gone, beside a peer that attacks, over
    that beside none before."""
    by_attack: dict[str, tuple[list[float], list[float]]] = {}
    for attack in route_attacks.ATTACKS:
        ports = route_attacks.free_ports(2)
        with Engine(binary, route_attacks.plan(cpus[0], ports), folder) as engine:
            shield(engine.process.pid)
            ratios = by_attack.setdefault(attack.__name__, ([], []))
            for _ in range(turns):
                before = _tables_s(engine, ports[1])
                with route_attacks.attacked(ports[0], attack):
                    time.sleep(STEADY_S)
                    beside = _tables_s(engine, ports[1])
                for gathered, one, other in zip(ratios, beside, before, strict=True):
                    gathered.append(one / other)
    return {name: (Sample(tuple(a)), Sample(tuple(b))) for name, (a, b) in by_attack.items()}


def _announces(port: int, tables: int) -> float:
    """How long a peer takes to announce and to withdraw so many, one after the other."""
    put, away = route_attacks.table(1, ROUTES)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        for _ in range(tables):
            peer.sendall(put)
            peer.sendall(away)
        peer.shutdown(socket.SHUT_WR)
        peer.settimeout(route_attacks.PATIENCE_S)
        with contextlib.suppress(ConnectionError):
            assert not peer.recv(1)  # all was taken in, and the connection ended
    return time.monotonic() - began


def _attacked_meanwhile(port: int, other: int, attack: route_attacks.Attack) -> float:
    took: list[float] = []
    table = threading.Thread(target=lambda: took.append(_announces(other, 2 * TABLES)))
    table.start()
    time.sleep(BEGUN_S)
    with route_attacks.attacked(port, attack):
        table.join()
    return took[0]


def meanwhile(binary: Path, folder: Path, cpus: list[int], turns: int) -> dict[str, Sample]:
    """By attack: how long tables take beside an attack that begins while they are sent, over alone.
    Two that both send all the time have half of the thread each, so 2 is what is fair."""
    by_attack: dict[str, list[float]] = {}
    for attack in route_attacks.ATTACKS:
        ports = route_attacks.free_ports(2)
        with Engine(binary, route_attacks.plan(cpus[0], ports), folder) as engine:
            shield(engine.process.pid)
            for _ in range(turns):
                alone = _announces(ports[1], 2 * TABLES)
                beside = _attacked_meanwhile(ports[0], ports[1], attack)
                by_attack.setdefault(attack.__name__, []).append(beside / alone)
    return {name: Sample(tuple(values)) for name, values in by_attack.items()}


def sweeps_ms(binary: Path, folder: Path, cpus: list[int], turns: int) -> Sample:
    """The longest that a request waits while a table is swept that another VNF's peer left."""
    ports = route_attacks.free_ports(2)
    with Engine(binary, route_attacks.plan(cpus[0], ports, 0), folder) as engine:
        shield(engine.process.pid)
        longest = [
            1e3 * route_attacks.longest_answer_s(engine, ports[0], ROUTES) for _ in range(turns)
        ]
    return Sample(tuple(longest))


if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="perf.hostile", description=__doc__)
    asked.add_argument("what", choices=["links", "routes", "meanwhile", "sweeps"])
    asked.add_argument("--turns", type=int, default=5)
    asked.add_argument("--seconds", type=float, default=0.25)
    given = asked.parse_args()
    built = Path(__file__).resolve().parents[2] / "build" / "engine" / "headrace-engine"
    binary = Path(os.environ.get("HEADRACE_ENGINE", built))
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "links":
            rows = hostile_links.taken(
                binary, Path(folder), free_cpus(), given.turns, given.seconds
            )
        elif given.what == "meanwhile":
            rows = meanwhile(binary, Path(folder), free_cpus(), given.turns)
        elif given.what == "sweeps":
            rows = {"ms": sweeps_ms(binary, Path(folder), free_cpus(), given.turns)}
        else:
            both = routes(binary, Path(folder), free_cpus(), given.turns)
            known = {f"{name}, known": one[0] for name, one in both.items()}
            rows = known | {f"{name}, gone": one[1] for name, one in both.items()}
    for name, sample in rows.items():
        print(f"{name}: {sample.median:.3f}; {[round(v, 3) for v in sample.values]}")
