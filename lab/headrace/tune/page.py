# SPDX-License-Identifier: Apache-2.0
"""The report of `headrace tune`: one self-contained page."""

from __future__ import annotations

import jinja2

import headrace
from headrace.tune.result import BASELINE, FINDINGS, Protocol, TuneResult
from headrace.tune.show import figures, of, protocols, sentences


def page(result: TuneResult) -> str:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("headrace.tune", "templates"),
                jinja2.PackageLoader("headrace.report", "templates"),
            ]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("tune.html.j2").render(
        result=result,
        findings=FINDINGS,
        sections=[(p, _rows(result, p)) for p in protocols(result)],
        sentences=sentences(result),
        version=headrace.__version__,
    )


def _rows(result: TuneResult, protocol: Protocol) -> list[dict[str, object]]:
    gains = {g.advice: g for g in result.gains() if g.protocol == protocol}
    names = [BASELINE, *gains]
    rates = {n: figures(of(result, n, protocol), gains.get(n)) for n in names}
    most = max(float(f[0]) for f in rates.values()) or 1.0
    return [
        {
            "name": name,
            "figures": rates[name],
            "width": 220 * float(rates[name][0]) / most,
            "sound": name not in gains or gains[name].sound,
            "softirq": _softirq(result, name, protocol),
        }
        for name in names
    ]


def _softirq(result: TuneResult, advice: str, protocol: Protocol) -> str:
    """Share of each core's time, mean over the rounds."""
    trials = of(result, advice, protocol)
    cores = trials[0].softirq_s
    shares = {c: sum(t.softirq_s[c] for t in trials) / len(trials) / result.seconds for c in cores}
    return ", ".join(f"{c} {s:.0%}" for c, s in shares.items())
