# SPDX-License-Identifier: Apache-2.0
"""How many servers of a type carry chains, and what they cost: placements on more and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.analyse.units import plural
from headrace.errors import BadInput, HeadraceError
from headrace.layout.placing import loads_of
from headrace.layout.provable import Placing
from headrace.layout.unmet import why_unmet
from headrace.profile.placeable import Placeable, PlacementWish
from headrace.spec.described import DescribedServer, Power
from headrace.spec.document import Document
from headrace.spec.placement import PlacementAnswer, PlacementProblem
from headrace.spec.provision import PowerAtLoad, PredictedPower, ServersNeeded
from headrace.spec.study import Experiment

# draft-ietf-bmwg-powerbench-02: loads and their weights, as its definitions of T and P have them.
LOADS = ((1.0, 0.1), (0.3, 0.8), (0.0, 0.1))
_MORE = 3  # servers beyond those that are proven to be needed
CAUTIONS: tuple[str, ...] = (
    "Prices, rents and watts are the descriptions' own, with the source that each names; no watt "
    "was measured. Space, cooling, people and traffic cost nothing here. Lcores that poll are as "
    "busy without packets as with them; hosted VNFs sleep when they have none, unless `wait` is "
    "poll.",
)


@dataclass(frozen=True)
class Costing:
    """What servers cost in so many hours of use: bought, their price and, where a kWh has one, what
    they draw with all of the load; rented, their rent, which has their power in it. None: the
    description has neither."""

    hours: float
    usd_per_kwh: float | None = None

    def check(self, server: DescribedServer) -> None:
        if self.usd_per_kwh is not None and server.price_usd is not None and server.power is None:
            raise BadInput(
                f"--usd-per-kwh: server {server.name} has a `price_usd` and no `power`, so that "
                "what it draws is not known; allowed: descriptions with both"
            )

    def of(self, server: DescribedServer, uses: Mapping[float, ServersInUse]) -> dict[str, Any]:
        """The fields of a row that say it: the less of both, by what is in use at each corner of
        the costs' spread."""
        ways: dict[str, dict[float, float]] = {}
        if (price := server.price_usd) is not None:
            each = (self.usd_per_kwh or 0.0) * self.hours / 1000
            ways["bought"] = {
                c: use.servers * price.at(c) + each * _drawn(server, use, c)
                for c, use in uses.items()
            }
        if (rent := server.rent_usd_per_hour) is not None:
            ways["rented"] = {c: use.servers * rent.at(c) * self.hours for c, use in uses.items()}
        least, most = uses.get(-1.0), uses.get(1.0)
        servers = {
            "servers_least": None if least is None else least.servers,
            "servers_most": None if most is None else most.servers,
        }
        if not ways:
            return {"usd": None, **servers}
        paid = min(ways, key=lambda way: ways[way][0.0])
        usd = ways[paid]
        spread = {"usd_least": usd.get(-1.0), "usd_most": usd.get(1.0)}
        return {"usd": usd[0.0], **spread, "paid": paid, **servers}


@dataclass(frozen=True)
class ServersInUse:
    """`busy`: so many servers' worth of busy cores, with all of the load."""

    servers: int
    busy: float


def _drawn(server: DescribedServer, use: ServersInUse, corner: float) -> float:
    power = server.power
    return 0.0 if power is None else _watts(power, use.servers, use.busy, corner)


@dataclass(frozen=True)
class Provisioning:
    doc: Document
    experiments: Sequence[Experiment]
    full: float
    seconds: float  # for each placement
    most: int  # servers
    costing: Costing

    def needed(
        self, server: DescribedServer, home: DescribedServer, factor: float
    ) -> ServersNeeded:
        wish = PlacementWish("lcores", self.full, 1, factor=factor)
        one = Placeable(self.doc, self.experiments, server, home, wish)
        one.check()
        rate = sum(one.demand(e).rate for e in self.experiments)
        least = self._refuted(one)
        for servers in range(least + 1, min(least + _MORE, self.most) + 1):
            there = replace(one, wish=replace(wish, servers=servers))
            answer = self._answer(there)
            if answer is not None:
                return self._row(there, answer, rate, fewest=servers == least + 1)
        return unmet(server, factor, rate, self._why_not(one, least))

    def _why_not(self, one: Placeable, refuted: int) -> str:
        reason = why_unmet(one.problem())
        if reason is not None:
            return reason
        if refuted >= self.most:
            return f"{plural(refuted, 'server')} are too few, by the bound; --most {self.most}"
        tried = min(refuted + _MORE, self.most)
        return (
            f"on {plural(tried, 'server')} no placement was met within {self.seconds:g} s each, "
            f"and more than {refuted} are not refuted"
        )

    def _refuted(self, one: Placeable) -> int:
        """So many servers are too few: by the bound of how busy they would be at least."""
        servers = 0
        while servers < self.most:
            wish = replace(one.wish, aim="rate", servers=servers + 1)
            problem = replace(one, wish=wish).problem()
            try:
                bound = Placing(problem, self.seconds).bound()
            except HeadraceError:
                return servers
            if bound <= problem.full:
                return servers
            servers += 1
        return servers

    def _answer(self, there: Placeable) -> PlacementAnswer | None:
        try:
            return Placing(there.problem(), self.seconds).answer()
        except HeadraceError:
            return None

    def _row(
        self, there: Placeable, answer: PlacementAnswer, rate: float, fewest: bool
    ) -> ServersNeeded:
        least, most = (
            replace(there, wish=replace(there.wish, corner=corner)) for corner in (-1.0, 1.0)
        )
        wish, server = there.wish, there.server
        low, high = self._answer(least), self._answer(most)
        cores = _cores(answer)
        uses = {0.0: ServersInUse(wish.servers, cores / server.cores)}
        # Fewer than these are refuted whatever they cost; where that is one less than there are,
        # it is so with costs as they are.
        few = min(wish.servers, self._refuted(least) + 1)
        uses[-1.0] = ServersInUse(few, _cores(low or answer) / server.cores)
        enough = high or self._more(most)
        if enough is not None:
            uses[1.0] = ServersInUse(len(enough.problem.servers), _cores(enough) / server.cores)
        gbps = sum(there.demand(e).rate * e.frame.mean_bytes * 8 / 1e9 for e in self.experiments)
        power = predicted_power(server, wish.servers, [cores / server.cores] * len(LOADS), gbps)
        return ServersNeeded(
            server=server.name,
            factor=wish.factor,
            rate_pps=rate,
            servers=wish.servers,
            fewest=fewest,
            lcores=answer.value,
            lcores_proven=answer.certificate.bound,
            lcores_least=None if low is None else low.certificate.bound,
            lcores_most=None if high is None else high.value,
            cores=cores,
            latency_us=_latency_us(answer.problem, answer),
            latency_least_us=_latency_us(least.problem(), answer),
            latency_most_us=_latency_us(most.problem(), answer),
            **self.costing.of(server, uses),
            watts=None if power is None else power.loads[0].watts,
            power=power,
        )

    def _more(self, there: Placeable) -> PlacementAnswer | None:
        """A placement on more servers than these; None: none was met."""
        servers = there.wish.servers
        for more in range(servers + 1, min(servers + _MORE, self.most) + 1):
            answer = self._answer(replace(there, wish=replace(there.wish, servers=more)))
            if answer is not None:
                return answer
        return None


def _cores(answer: PlacementAnswer) -> int:
    """Physical ones that have lcores in use."""
    threads = answer.problem.modes[answer.placement.mode].threads
    loads = loads_of(answer.problem, answer.placement)
    return len({(area, lcore // threads) for area, lcore in loads.lcores})


def _latency_us(problem: PlacementProblem, answer: PlacementAnswer) -> float:
    """The slowest chain's in this placement, by a problem's costs."""
    return max(loads_of(problem, answer.placement).latency_ns) / 1e3


def unmet(server: DescribedServer, factor: float, rate: float, why_not: str) -> ServersNeeded:
    """The row of what no number of these servers was found to carry."""
    return ServersNeeded(
        server=server.name, factor=factor, rate_pps=rate, servers=None, fewest=False,
        lcores=None, lcores_proven=None, lcores_least=None, lcores_most=None, cores=None,
        latency_us=None, usd=None, watts=None, why_not=why_not,
    )  # fmt: skip


def predicted_power(
    server: DescribedServer, servers: int, busy: Sequence[float], gbps: float
) -> PredictedPower | None:
    """What all servers draw. `busy`: at each of LOADS so many servers' worth of busy cores."""
    if server.power is None:
        return None
    loads = tuple(
        PowerAtLoad(load=load, weight=weight, gbps=load * gbps, watts=watts, least=least, most=most)
        for (load, weight), share in zip(LOADS, busy, strict=True)
        for watts, least, most in [
            [_watts(server.power, servers, share, corner) for corner in (0.0, -1.0, 1.0)]
        ]
    )
    carried = sum(one.weight * one.gbps for one in loads)
    drawn = [
        sum(one.weight * getattr(one, name) for one in loads) for name in ("watts", "least", "most")
    ]
    figures = {"idle_watts": server.power.idle_watts, "busy_watts": server.power.busy_watts}
    return PredictedPower(
        base_watts=_watts(server.power, servers, 0.0, 0.0),
        loads=loads,
        weighted_watts=drawn[0],
        weighted_gbps=carried,
        gbps_per_watt=carried / drawn[0],
        eer_least=carried / drawn[2],
        eer_most=carried / drawn[1],
        sources=tuple(
            f"{name}: {server.sources[one.source].kind}: {server.sources[one.source].text}"
            for name, one in figures.items()
        ),
    )


def _watts(power: Power, servers: int, busy: float, corner: float) -> float:
    """`busy`: so many servers' worth of busy cores."""
    idle, full = power.idle_watts.at(corner), power.busy_watts.at(corner)
    return servers * idle + busy * (full - idle)


def with_pareto(rows: Sequence[ServersNeeded]) -> tuple[ServersNeeded, ...]:
    return tuple(
        row.model_copy(update={"pareto": not any(_better(other, row) for other in rows)})
        if row.usd is not None
        else row
        for row in rows
    )


def _better(a: ServersNeeded, b: ServersNeeded) -> bool:
    """It is as good in cost, cores, rate and delay, and better in one of them."""
    if a.usd is None or b.usd is None or a.latency_us is None or b.latency_us is None:
        return False
    here = a.usd, a.cores or 0, -a.rate_pps, a.latency_us
    there = b.usd, b.cores or 0, -b.rate_pps, b.latency_us
    return here != there and all(x <= y for x, y in zip(here, there, strict=True))
