# SPDX-License-Identifier: Apache-2.0
"""Checks the answer of `headrace plan --server`: what the placement is worth, and its certificate.

A program by itself: it needs Python's standard library alone and shares no code with what made the
answer. It reads the answer's file and nothing else:

    python3 check_placement.py ANSWER.json

Without a file it reads its standard input. Status 0: accepted; 1: rejected, with the reason.
docs/placement.md says what is checked.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]  # as the file has it
# chain, first, end, area, cycles, replicas: what a segment costs of lcores
Cost = Callable[[Json, int, int, int, int, tuple[int, int]], int | None]
# What a segment may be: end and area; how many replicas, at least and at most.
Some = tuple[frozenset[tuple[int, int]], tuple[int, int]]
Begins = dict[int, tuple[Some, ...]]  # by chain, its first segments
Known = dict[tuple[int, tuple[Some, ...]], float]  # what chains cost at least at the same prices

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
        + (chain["apart"][area] if chain["apart"] else 0)
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
    if chain["switch"] is not None:
        yield chain["switch"], chain["switched"][area]


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


def by_load(problem: Json, mode: Json, bound: Json, room: int) -> tuple[Cost, int]:
    """What a segment costs of lcores by what it takes of them; and the number that all is in."""
    (each, common), scale = counted(problem, mode, bound)

    def cost(
        chain: Json, first: int, end: int, area: int, fine: int, several: tuple[int, int]
    ) -> int | None:
        items = [(k, replica(chain, fine, k)) for k in counts(problem, mode, chain, area, several)]
        sizes = [k * dual_feasible(item, room, bound["step"]) for k, item in items if item <= room]
        price = bound["areas"][area] * common + scale * each[area]
        return price * min(sizes) if sizes else None

    return cost, room * max(1, bound["step"]) * common


def by_items(problem: Json, mode: Json, bound: Json, room: int) -> tuple[Cost, int]:
    """The same by prices of its replicas' loads."""
    prices: dict[tuple[int, int | None, int, int], Json] = {
        (one["area"], one["chain"], one["first"], one["end"]): one for one in bound["items"]
    }
    names = {chain["name"]: c for c, chain in enumerate(problem["chains"])}
    require(len(names) == len(problem["chains"]), "two chains have one name")

    def cost(
        chain: Json, first: int, end: int, area: int, fine: int, several: tuple[int, int]
    ) -> int | None:
        here = first_of(problem, area)
        kind = prices.get((here, names[chain["name"]], first, end), prices.get((here, None, 0, 0)))
        costs = []
        for k in counts(problem, mode, chain, area, several):
            item = replica(chain, fine, k)
            if item <= room:
                costs.append(0 if kind is None else k * price_of(kind, item // bound["grain"]))
        return min(costs) if costs else None

    return cost, 1


def counts(
    problem: Json, mode: Json, chain: Json, area: int, several: tuple[int, int]
) -> Iterator[int]:
    """How many replicas a segment may have, of those that are asked about."""
    most = min(problem["areas"][area]["cores"] * mode["threads"], len(chain["spread"]))
    return iter(range(max(1, several[0]), min(most, several[1]) + 1))


def price_of(kind: Json, size: int) -> int:
    at = bisect.bisect_right(kind["sizes"], size)
    return int(kind["prices"][at - 1]) if at else 0


def first_of(problem: Json, area: int) -> int:
    """The area in the same place of the first server, where all are of one type."""
    if len({server["type"] for server in problem["servers"]}) > 1:
        return area
    return int(area % (len(problem["areas"]) // len(problem["servers"])))


def counted(problem: Json, mode: Json, bound: Json) -> tuple[tuple[list[int], int], int]:
    """What the aim counts for an lcore of each area, a server's own evenly for each of its lcores:
    as whole numbers over a common denominator; and the bound's scale."""
    lcores = [0] * len(problem["servers"])
    for area in problem["areas"]:
        lcores[area["server"]] += area["cores"] * mode["threads"]
    if problem["aim"] == "rate":
        return ([0] * len(problem["areas"]), 1), bound["scale"]
    common = 1
    for count in lcores:
        common *= count // gcd(common, count)
    each = []
    for area in problem["areas"]:
        owner = problem["servers"][area["server"]]
        fixed = {"all": owner["fixed"], "servers": 1, "rest": 0}[bound["part"]]
        own = 0 if bound["part"] == "servers" else owner["each"]
        each.append(own * common + fixed * common // lcores[area["server"]])
    return (each, common), bound["scale"]


def least(
    problem: Json, chain: Json, bound: Json, price_ns: int, cost_of: Cost, unit: int,
    begin: tuple[Some, ...],
) -> float:  # fmt: skip
    """The least that any way of a chain costs at the bound's prices, in parts of `unit`. `begin`:
    what its first segments may be."""
    weight = 0 if bound["part"] == "servers" else problem["weight_ns"]
    ns = (price_ns + bound["scale"] * weight) * unit
    best: float = INFINITE
    for door in chain["doors"]:
        areas = [i for i, a in enumerate(problem["areas"]) if a["server"] == door["server"]]
        paid = sum(bound["limits"][i] * u for i, u in door["uses"]) * unit
        # By function, area before and number of segments so far, as far as that counts.
        cheapest: list[dict[tuple[int | None, int], float]] = [{} for _ in chain["functions"]]
        cheapest.append({})
        cheapest[0] = {(None, 0): paid}
        for first in range(len(chain["functions"])):
            for end in range(first + 1, len(chain["functions"]) + 1):
                for area in areas:
                    for (come, number), sofar in before(problem, door, cheapest[first], area):
                        several = allowed(chain, begin, number, end, area)
                        fine = work(chain, first, end, area, come)
                        cost = cost_of(chain, first, end, area, fine, several)
                        if cost is None:
                            continue
                        total = sofar + cost + ns * delay(chain, first, end, area, come)
                        for limit, amount in taken(problem, chain, first, end, area, come):
                            total += bound["limits"][limit] * amount * unit
                        place = area, min(number + 1, len(begin))
                        if total < cheapest[end].get(place, INFINITE):
                            cheapest[end][place] = total
        best = min([best, *cheapest[-1].values()])
    return best


def before(
    problem: Json, door: Json, cheapest: dict[tuple[int | None, int], float], area: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """By where packets come from to an area, and number of segments so far: the least."""
    by_origin: dict[tuple[int, int], float] = {}
    for (where, number), sofar in cheapest.items():
        key = origin(problem, door if where is None else where, area), number
        by_origin[key] = min(sofar, by_origin.get(key, INFINITE))
    yield from by_origin.items()


def allowed(
    chain: Json, begin: tuple[Some, ...], number: int, end: int, area: int
) -> tuple[int, int]:
    """How many replicas the segment of this number may have there; (1, 0): it may not be there."""
    if number >= len(begin):
        return 1, len(chain["spread"])
    places, several = begin[number]
    return several if (end, area) in places else (1, 0)


def dearest(problem: Json, bound: Json, area: int, units: int) -> int:
    """The most that items which fit on one lcore of an area are worth: no more than it may poll,
    of each chain some that have no function twice, and any of those without prices of their own."""
    most = problem["lcore_segments"]
    total = [[0] * (units + 1) for _ in range(most + 1)]  # by items, by load: at most
    here = [one for one in bound["items"] if one["area"] == first_of(problem, area)]
    for c, chain in enumerate(problem["chains"]):
        own = sorted((one for one in here if one["chain"] == c), key=lambda one: one["end"])
        reached = {0: total}  # with segments of the chain up to a function
        for one in own:
            require(0 <= one["first"] < one["end"] <= len(chain["functions"]), "no such segment")
            if one["end"] not in reached:
                reached[one["end"]] = [list(row) for row in reached[max(reached)]]
            before = reached[max(end for end in reached if end <= one["first"])]
            for count in range(1, most + 1):
                put(reached[one["end"]], count, before[count - 1], one, units)
        total = reached[max(reached)]
    for one in (one for one in here if one["chain"] is None):
        for count in range(1, most + 1):
            total[count] = list(map(max, total[count], total[count - 1]))
            put(total, count, total[count - 1], one, units)
    return max(row[-1] for row in total)


def put(rows: list[list[int]], count: int, before: list[int], one: Json, units: int) -> None:
    """One item more, of any of its sizes."""
    row, last = rows[count], 0
    for size, price in zip(one["sizes"], one["prices"], strict=True):
        if price > last and size <= units:
            more = [value + price for value in before[: units + 1 - size]]
            row[size:] = map(max, row[size:], more)
            last = price
    rows[count] = row


def check_items(problem: Json, mode: Json, bound: Json, room: int) -> None:
    """An lcore's price, and what the aim counts for it, are what any pattern of items is worth."""
    (each, common), scale = counted(problem, mode, bound)
    names = [(one["area"], one["chain"], one["first"], one["end"]) for one in bound["items"]]
    require(len(set(names)) == len(names), "items have prices twice")
    require(bound["step"] == 0, "a step, with items' prices")
    for one in bound["items"]:
        require(
            all(a < b for a, b in itertools.pairwise(one["sizes"]))
            and all(0 <= a <= b for a, b in itertools.pairwise([0, *one["prices"]]))
            and all(size >= 0 for size in one["sizes"])
            and len(one["sizes"]) == len(one["prices"]),
            "sizes or prices of items do not ascend",
        )
    known: dict[int, int] = {}
    for area, price in enumerate(bound["areas"]):
        alike = first_of(problem, area)
        if alike not in known:
            known[alike] = dearest(problem, bound, area, room // bound["grain"])
        require(
            price * common + scale * each[area] >= known[alike] * common,
            f"items on an lcore of area {area} are worth {known[alike]}",
        )


def check_mode(
    problem: Json, bound: Json, begins: Begins | None = None, known: Known | None = None
) -> None:
    """Lagrange: prices for lcores, or for what is on them, for limits and time over a goal; what
    all chains cost at least at them, each by itself, less what all that there is is worth.
    `begins`: of placements with these first segments alone; `known`: what was computed at the same
    prices before."""
    mode = problem["modes"][bound["mode"]]
    prices = [*bound["areas"], *bound["limits"], *bound["chains"]]
    require(bound["scale"] > 0 and bound["step"] >= 0 and bound["grain"] >= 0, "scale or step")
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
    costs = {} if known is None else known
    if bound["grain"] and not costs:
        check_items(problem, mode, bound, room)
    cost_of, unit = (by_items if bound["grain"] else by_load)(problem, mode, bound, room)
    total = 0
    for number, chain in enumerate(problem["chains"]):
        limit, price = chain["within_ns"], bound["chains"][number]
        require(limit is not None or price == 0, f"{chain['name']}: a price without a goal")
        mine = number, (begins or {}).get(number, ())
        if mine not in costs:
            costs[mine] = least(problem, chain, bound, price, cost_of, unit, mine[1])
        cost = costs[mine]
        if cost == INFINITE:
            require(bound["surplus"] is None, "a chain has no way at all")
            return
        total += int(cost) - price * (limit or 0) * unit
    for area, price in zip(problem["areas"], bound["areas"], strict=True):
        total -= price * area["cores"] * mode["threads"] * unit
    for limit, price in zip(problem["limits"], bound["limits"], strict=True):
        total -= price * (limit["capacity"] * full // WHOLE) * unit
    require(total == bound["surplus"], f"mode {bound['mode']}: the surplus is {total}")
    if free:
        require(total > 0, f"mode {bound['mode']}: {full} is not refuted")
    else:
        proven = ceil(int(total), unit * bound["scale"])
        least_step = multiple(problem, bound["part"])
        proven = ceil(proven, least_step) * least_step
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


def check_tree(
    problem: Json, tree: Json, node: Json, begins: Begins, known: dict[int, Known]
) -> None:
    """The branches of a node have every place that it leaves to a segment of a chain, with every
    number of replicas, so that each placement is in one of the leaves, and none in a leaf is below
    the bound."""
    chain, leaf = node["chain"], node["refuted"]
    if chain is None:
        require(leaf is not None, "a leaf without a bound")
        require(0 <= leaf["prices"] < len(tree["prices"]), "a leaf without prices")
        bound = {**tree["prices"][leaf["prices"]], "surplus": leaf["surplus"]}
        require(bound["mode"] == tree["mode"] and bound["part"] == "all", "another mode's bound")
        require(bound["bound"] == tree["bound"], f"a leaf of {bound['bound']}")
        check_mode(problem, bound, begins, known.setdefault(leaf["prices"], {}))
        return
    require(0 <= chain < len(problem["chains"]), "no such chain")
    begin, number = begins.get(chain, ()), node["segment"]
    require(0 <= number <= len(begin), f"chain {chain}: segments before {number} have no place")
    if number < len(begin):
        places, (low, high) = begin[number]
    else:
        places, (low, high) = following(problem, problem["chains"][chain], begin)
    left = {(place, k) for place in places for k in range(low, high + 1)}
    for branch in node["branches"]:
        some = frozenset((end, area) for end, area in branch["places"])
        several = branch["replicas"]
        fewest, most = (low, high) if several is None else several
        here = *begin[:number], (some, (fewest, most)), *begin[number + 1 :]
        check_tree(problem, tree, branch["node"], {**begins, chain: here}, known)
        left -= {(place, k) for place in some for k in range(fewest, most + 1)}
    require(not left, f"chain {chain}: no branch has segments {sorted(left)[:4]}")


def following(problem: Json, chain: Json, begin: tuple[Some, ...]) -> Some:
    """All that a segment behind these may be. All ways that begin so have one."""
    ends = {end for end, _ in begin[-1][0]} if begin else {0}
    functions = len(chain["functions"])
    require(
        len(ends) == 1 and max(ends) < functions, f"{chain['name']}: no segment in all ways there"
    )
    every = ((end, a) for end in range(1, functions + 1) for a in range(len(problem["areas"])))
    places = frozenset((end, area) for end, area in every if end > max(ends))
    return places, (1, len(chain["spread"]))


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


def seal(certificate: Json) -> str:
    """Seals it, so that a number which is altered is found where what it proves happens to be the
    same."""
    rest = {key: value for key, value in certificate.items() if key != "seal"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ports(problem: Json, choices: int) -> int:
    """How busy the busiest port is at least, whatever port each chain has."""
    doors = [chain["doors"] for chain in problem["chains"]]
    count, least_busy = 0, INFINITE
    for several in itertools.product(*doors):
        used = [0] * len(problem["limits"])
        for door in several:
            for limit, amount in door["uses"]:
                used[limit] += amount
        pairs = zip(used, problem["limits"], strict=True)
        least_busy = min(least_busy, max(ceil(u * WHOLE, one["capacity"]) for u, one in pairs))
        count += 1
    require(count == choices, f"there are {count} choices of ports")
    return int(least_busy)


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
    require(certificate["seal"] == seal(certificate), "not as it was sealed: something is altered")
    require(certificate["bound"] <= worth, "the bound is above the value")
    if certificate["enumerated"] is not None:
        check_enumerated(problem, certificate)
        return
    apart = 0
    if certificate["ports"] is not None:
        require(problem["aim"] == "rate", "ports alone say nothing of what the aim counts")
        apart = ports(problem, certificate["ports"])
    for number in range(len(problem["modes"])):
        bounds = {b["part"]: b for b in certificate["modes"] if b["mode"] == number}
        for bound in bounds.values():
            check_mode(problem, bound)
        if "all" in bounds:
            proven = bounds["all"]["bound"]
        else:
            cheapest = sorted(server["fixed"] for server in problem["servers"])
            proven = sum(cheapest[: bounds["servers"]["bound"]]) + bounds["rest"]["bound"]
        for tree in certificate["trees"]:
            if tree["mode"] == number:
                require(problem["aim"] == "rate", "branches of another aim than the rate")
                check_tree(problem, tree, tree["node"], {}, {})
                proven = max(proven, tree["bound"])
        proven = max(proven, apart)
        require(proven >= certificate["bound"], f"mode {number}: only {proven} is proven")


def main() -> int:
    try:
        file = sys.argv[1] if len(sys.argv) > 1 else "-"
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        answer = json.loads(text)
        check(answer)
    except (
        Rejected, OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        print(f"rejected: {error}")
        return 1
    print(f"accepted: value {answer['value']}, bound {answer['certificate']['bound']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
