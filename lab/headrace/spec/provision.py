# SPDX-License-Identifier: Apache-2.0
"""What `headrace provision` says: how many servers of which type carry a study's chains."""

from __future__ import annotations

from headrace.spec.base import Spec


class ServersNeeded(Spec):
    """Servers of one type for `factor` times the rates that are asked for. `servers` None: there
    is no placement, or none was met; `why_not` says which. `fewest`: one server less is refuted by
    a bound. `lcores_proven`: no placement on these servers uses fewer. `lcores_least`,
    `lcores_most`: proven at the costs' least, met at their most. `latency_us`: of the slowest
    chain. Watts are by the description's idle and busy watts, never measured."""

    server: str
    factor: float
    rate_pps: float
    servers: int | None
    fewest: bool
    lcores: int | None
    lcores_proven: int | None
    lcores_least: int | None
    lcores_most: int | None
    latency_us: float | None
    usd: float | None
    watts: float | None
    why_not: str = ""
    pareto: bool = False  # none of the others costs less and carries as much as fast


class Provision(Spec):
    """headrace provision"""

    study: str
    busy: float
    needs: tuple[ServersNeeded, ...]
    cautions: tuple[str, ...]
