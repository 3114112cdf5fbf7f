# SPDX-License-Identifier: Apache-2.0
"""Checks the answer of `headrace plan --server`: what the placement is worth, and its certificate.

A program by itself: it needs Python's standard library alone and shares no code with what made the
answer. It reads the answer's file and nothing else:

    python3 check_placement.py ANSWER.json

Status 0: accepted; 1: rejected, with the reason. docs/placement.md says what is checked.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]  # as the file has it

WHOLE = FINE = 10_000
INFINITE = float("inf")


class Rejected(Exception):
    pass


def require(holds: bool, words: str) -> None:
    if not holds:
        raise Rejected(words)


def ceil(a: int, b: int) -> int:
    return -((-a) // b)


# --- what a placement is worth ---------------------------------------------------------------


def origin(problem: Json, where: Json | int, area: int) -> int:
    """0: packets come from the same area, 1: the same node, 2: another node. `where`: an area's
    number, or a door."""
    areas = problem["areas"]
    if isinstance(where, dict):
        return 0 if where["node"] == areas[area]["node"] else 2
    if where == area:
        return 0
    return 1 if areas[where]["node"] == areas[area]["node"] else 2


def work(chain: Json, first: int, end: int, area: int, come: int) -> int:
    functions = chain["functions"]
    cycles: int = (
        functions[first]["enter"][come]
        + sum(f["work"][area] for f in functions[first:end])
        + functions[end - 1]["leave"]
    )
    return cycles


def replica(chain: Json, fine: int, count: int) -> int:
    return ceil(fine * chain["spread"][count - 1], count * FINE * FINE)


def delay(chain: Json, first: int, end: int, area: int, come: int) -> int:
    functions = chain["functions"]
    inside: int = sum(f["delay_ns"][area] for f in functions[first:end])
    return inside + int(functions[first]["enter_ns"][come])


def taken(
    problem: Json, chain: Json, first: int, end: int, area: int, come: int
) -> Iterator[tuple[int, int]]:
    """What a segment uses of limits."""
    here = problem["areas"][area]
    if here["limit"] is not None:
        yield here["limit"], sum(f["memory"][area] for f in chain["functions"][first:end])
    crossing = problem["servers"][here["server"]]["crossing"]
    if come == 2 and crossing is not None:
        yield crossing, chain["crossing"]


def check_shape(problem: Json, mode: Json, chain: Json, way: Json) -> None:
    require(0 <= way["door"] < len(chain["doors"]), f"{chain['name']}: no such door")
    server, at = chain["doors"][way["door"]]["server"], 0
    for s in way["segments"]:
        require(s["first"] == at and s["end"] > at, f"{chain['name']}: segments do not follow")
        at = s["end"]
        require(0 <= s["area"] < len(problem["areas"]), f"{chain['name']}: no such area")
        area = problem["areas"][s["area"]]
        require(area["server"] == server, f"{chain['name']}: leaves its server")
        most = area["cores"] * mode["threads"]
        lcores = s["lcores"]
        require(
            1 <= len(set(lcores)) == len(lcores) <= len(chain["spread"])
            and all(0 <= one < most for one in lcores),
            f"{chain['name']}: lcores {lcores}",
        )
    require(at == len(chain["functions"]), f"{chain['name']}: not all functions are placed")


def value(problem: Json, placement: Json) -> int | None:
    """What the aim counts; None: a goal is not met."""
    mode = problem["modes"][placement["mode"]]
    loads: dict[tuple[int, int], int] = {}
    polled: dict[tuple[int, int], int] = {}
    used = [0] * len(problem["limits"])
    latencies = 0
    for chain, way in zip(problem["chains"], placement["ways"], strict=True):
        door = chain["doors"][way["door"]]
        for limit, amount in door["uses"]:
            used[limit] += amount
        where: Json | int = door
        latency = 0
        for s in way["segments"]:
            part = s["first"], s["end"], s["area"], origin(problem, where, s["area"])
            where = s["area"]
            latency += delay(chain, *part)
            for limit, amount in taken(problem, chain, *part):
                used[limit] += amount
            each = replica(chain, work(chain, *part), len(s["lcores"]))
            for lcore in s["lcores"]:
                key = s["area"], lcore
                loads[key] = loads.get(key, 0) + each
                polled[key] = polled.get(key, 0) + 1
        if chain["within_ns"] is not None and latency > chain["within_ns"]:
            return None
        latencies += latency
    if max(polled.values()) > problem["lcore_segments"]:
        return None
    most = max(ceil(load * WHOLE, mode["speed"]) for load in loads.values())
    for amount, limit in zip(used, problem["limits"], strict=True):
        most = max(most, ceil(amount * WHOLE, limit["capacity"]))
    if problem["aim"] == "rate":
        return most
    if most > problem["full"]:
        return None
    servers = [problem["areas"][area]["server"] for area, _ in loads]
    lcores: int = sum(problem["servers"][s]["each"] for s in servers)
    fixed: int = sum(problem["servers"][s]["fixed"] for s in set(servers))
    return lcores + fixed + int(problem["weight_ns"]) * latencies


# --- certificates -----------------------------------------------------------------------------


def dual_feasible(item: int, room: int, step: int) -> int:
    """(value, of how much): loads of an lcore that fit into `room` have values that fit, too."""
    if step == 0:
        return item
    scaled = (step + 1) * item
    return item * step if scaled % room == 0 else scaled // room * room


def least(
    problem: Json,
    mode: Json,
    chain: Json,
    room: int,
    bound: Json,
    price_ns: int,
    lcores: list[int],
    common: int,
) -> float:
    """The least that any way of a chain costs at the bound's prices."""
    step, scale = bound["step"], bound["scale"]
    whole = room * max(1, step)
    weight = 0 if bound["part"] == "servers" else problem["weight_ns"]
    ns = (price_ns + scale * weight) * whole * common
    best: float = INFINITE
    for door in chain["doors"]:
        server = door["server"]
        owner = problem["servers"][server]
        counted = 0
        if problem["aim"] != "rate":
            fixed = {"all": owner["fixed"], "servers": 1, "rest": 0}[bound["part"]]
            each = 0 if bound["part"] == "servers" else owner["each"]
            counted = scale * (each * common + fixed * common // lcores[server])
        areas = [i for i, a in enumerate(problem["areas"]) if a["server"] == server]
        paid = sum(bound["limits"][i] * u for i, u in door["uses"]) * whole * common
        cheapest: list[dict[int | None, float]] = [{} for _ in range(len(chain["functions"]) + 1)]
        cheapest[0] = {None: paid}
        for first in range(len(chain["functions"])):
            for end in range(first + 1, len(chain["functions"]) + 1):
                for area in areas:
                    by_origin: dict[int, float] = {}
                    for before, sofar in cheapest[first].items():
                        come = origin(problem, door if before is None else before, area)
                        by_origin[come] = min(sofar, by_origin.get(come, INFINITE))
                    most = problem["areas"][area]["cores"] * mode["threads"]
                    price = bound["areas"][area] * common + counted
                    for come, sofar in by_origin.items():
                        fine = work(chain, first, end, area, come)
                        items = []
                        for k in range(1, min(most, len(chain["spread"])) + 1):
                            item = replica(chain, fine, k)
                            if item <= room:
                                items.append(k * dual_feasible(item, room, step))
                        if not items:
                            continue
                        total = sofar + price * min(items)
                        total += ns * delay(chain, first, end, area, come)
                        for limit, amount in taken(problem, chain, first, end, area, come):
                            total += bound["limits"][limit] * amount * whole * common
                        if total < cheapest[end].get(area, INFINITE):
                            cheapest[end][area] = total
        best = min([best, *cheapest[-1].values()])
    return best


def check_mode(problem: Json, bound: Json) -> None:
    """Lagrange: prices for lcores, limits and time over a goal; what all chains cost at least at
    them, each by itself, less what all that is there is worth."""
    mode = problem["modes"][bound["mode"]]
    prices = [*bound["areas"], *bound["limits"], *bound["chains"]]
    require(bound["scale"] > 0 and bound["step"] >= 0, "scale or step")
    require(all(isinstance(p, int) and p >= 0 for p in prices), "a price is negative")
    require(
        [len(bound[key]) for key in ("areas", "limits", "chains")]
        == [len(problem[key]) for key in ("areas", "limits", "chains")],
        "prices are missing",
    )
    free = problem["aim"] == "rate"
    full = bound["bound"] - 1 if free else problem["full"]
    room = full * mode["speed"] // WHOLE
    if room <= 0:
        require(free, "no room")
        return
    lcores = [0] * len(problem["servers"])
    for area in problem["areas"]:
        lcores[area["server"]] += area["cores"] * mode["threads"]
    common = 1  # so that a server's fixed costs are whole numbers for each lcore
    for count in [] if free else lcores:
        common *= count // gcd(common, count)
    whole = room * max(1, bound["step"])
    total = 0
    for chain, price in zip(problem["chains"], bound["chains"], strict=True):
        limit = chain["within_ns"]
        require(limit is not None or price == 0, f"{chain['name']}: a price without a goal")
        cost = least(problem, mode, chain, room, bound, price, lcores, common)
        if cost == INFINITE:
            require(bound["surplus"] is None, "a chain has no way at all")
            return
        total += int(cost) - price * (limit or 0) * whole * common
    for area, price in zip(problem["areas"], bound["areas"], strict=True):
        total -= price * area["cores"] * mode["threads"] * whole * common
    for limit, price in zip(problem["limits"], bound["limits"], strict=True):
        total -= price * (limit["capacity"] * full // WHOLE) * whole * common
    require(total == bound["surplus"], f"mode {bound['mode']}: the surplus is {total}")
    if free:
        require(total > 0, f"mode {bound['mode']}: {full} is not refuted")
    else:
        proven = ceil(int(total), whole * common * bound["scale"])
        unit = multiple(problem, bound["part"])
        proven = ceil(proven, unit) * unit
        require(proven == bound["bound"], f"mode {bound['mode']}: {proven} is proven")


def multiple(problem: Json, part: str) -> int:
    """What all values are a multiple of."""
    if part == "servers" or problem["weight_ns"]:
        return 1
    unit = 0
    for server in problem["servers"]:
        unit = gcd(unit, server["each"])
        if part == "all":
            unit = gcd(unit, server["fixed"])
    return max(1, unit)


def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def cuts(functions: int) -> Iterator[list[tuple[int, int]]]:
    for bars in range(1 << (functions - 1)):
        ends = [i + 1 for i in range(functions - 1) if bars >> i & 1] + [functions]
        yield list(zip([0, *ends[:-1]], ends, strict=True))


def ways(problem: Json, mode: Json, chain: Json) -> Iterator[Json]:
    for number, door in enumerate(chain["doors"]):
        places = []
        for index, area in enumerate(problem["areas"]):
            if area["server"] != door["server"]:
                continue
            lcores = range(area["cores"] * mode["threads"])
            for k in range(1, len(chain["spread"]) + 1):
                places += [(index, some) for some in itertools.combinations(lcores, k)]
        for cut in cuts(len(chain["functions"])):
            for chosen in itertools.product(places, repeat=len(cut)):
                yield {
                    "door": number,
                    "segments": [
                        {"first": a, "end": b, "area": area, "lcores": lcores}
                        for (a, b), (area, lcores) in zip(cut, chosen, strict=True)
                    ],
                }


def text(way: Json) -> str:
    return f"{way['door']}:" + ";".join(
        f"{s['first']}-{s['end']}@{s['area']}/{','.join(map(str, s['lcores']))}"
        for s in way["segments"]
    )


def check_enumerated(problem: Json, certificate: Json) -> None:
    """Every placement, made here once more."""
    count, digest = 0, 0
    best: int | None = None
    for number, mode in enumerate(problem["modes"]):
        for several in itertools.product(
            *(list(ways(problem, mode, c)) for c in problem["chains"])
        ):
            count += 1
            here = value(problem, {"mode": number, "ways": several})
            if here is None:
                continue
            line = f"{number}|{'|'.join(map(text, several))}={here}"
            digest += int(hashlib.sha256(line.encode()).hexdigest(), 16)
            best = here if best is None else min(best, here)
    told = certificate["enumerated"]
    require(count == told["placements"], f"there are {count} placements")
    require(f"{digest % (1 << 256):064x}" == told["digest"], "the digest is another one")
    require(best is not None and best >= certificate["bound"], f"one has the value {best}")


def check(answer: Json) -> None:
    problem, placement = answer["problem"], answer["placement"]
    require(0 <= placement["mode"] < len(problem["modes"]), "no such mode")
    require(len(placement["ways"]) == len(problem["chains"]), "a way for each chain")
    for chain, way in zip(problem["chains"], placement["ways"], strict=True):
        check_shape(problem, problem["modes"][placement["mode"]], chain, way)
    worth = value(problem, placement)
    require(worth is not None, "the placement does not meet the goals")
    require(worth == answer["value"], f"the placement is worth {worth}, not {answer['value']}")
    certificate = answer["certificate"]
    require(certificate["bound"] <= worth, "the bound is above the value")
    if certificate["enumerated"] is not None:
        check_enumerated(problem, certificate)
        return
    for number in range(len(problem["modes"])):
        bounds = {b["part"]: b for b in certificate["modes"] if b["mode"] == number}
        for bound in bounds.values():
            check_mode(problem, bound)
        if "all" in bounds:
            proven = bounds["all"]["bound"]
        else:
            cheapest = sorted(server["fixed"] for server in problem["servers"])
            proven = sum(cheapest[: bounds["servers"]["bound"]]) + bounds["rest"]["bound"]
        require(proven >= certificate["bound"], f"mode {number}: only {proven} is proven")


def main() -> int:
    answer = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        check(answer)
    except (Rejected, KeyError, IndexError, TypeError, ValueError) as error:
        print(f"rejected: {error}")
        return 1
    print(f"accepted: value {answer['value']}, bound {answer['certificate']['bound']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
