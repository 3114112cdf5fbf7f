# SPDX-License-Identifier: Apache-2.0
"""headrace provision: how many servers of which type carry a study's chains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import print_json, stdout
from headrace.cli._placing import kind_of_placeable, one_of_each, share_of
from headrace.cli._study_run import open_spec
from headrace.errors import bad_value
from headrace.host.store import server_given
from headrace.report.html import write
from headrace.report.provision import document as provision_document
from headrace.report.terminal import show
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.provision import Provision, ServersNeeded
from headrace.spec.server_file import with_costs
from headrace.spec.study import expand


def provision(
    spec: Annotated[Path, typer.Argument(help="A spec with chains and their demands.")],
    server: Annotated[
        list[str], typer.Option("--server", help="A described server (file or name). Several.")
    ],
    factor: Annotated[
        list[float] | None, typer.Option(help="Times the demands; 0.5, 1 and 2 by default.")
    ] = None,
    oversubscription: Annotated[
        list[str] | None,
        typer.Option(help="VNFs to a physical core, hosted; 1:1, 2:1 and 4:1 by default."),
    ] = None,
    busy: Annotated[str, typer.Option(help="How busy an lcore or a port may be.")] = "80%",
    most: Annotated[int, typer.Option(min=1, max=64, help="Servers at most.")] = 16,
    hours: Annotated[
        float, typer.Option(min=1, max=1e6, help="Hours of use that costs are of: three years.")
    ] = 26280.0,
    usd_per_kwh: Annotated[
        float | None, typer.Option(min=0, max=100, help="Of what bought servers draw.")
    ] = None,
    within: Annotated[
        float, typer.Option(min=0.5, max=3600, help="Seconds for each placement.")
    ] = 3.0,
    html: Annotated[Path | None, typer.Option(help="Write the page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is needed.")] = False,
) -> None:
    """How many servers of each type carry the chains of a study, and what they cost."""
    from headrace.profile.provisioned import with_pareto

    doc = open_spec(spec, trusted=False)
    factors = sorted(set(factor or (0.5, 1.0, 2.0)))
    for one in factors:
        if not 0.001 <= one <= 1000:
            raise bad_value("--factor", one, allowed="0.001 to 1000")
    full = share_of("--busy", busy)
    files = dict.fromkeys(server_given(doc, name).resolve() for name in server)
    asked = _AskedServers([with_costs(file) for file in files], factors, full, within, most)
    rows, cautions = _rows(doc, asked, oversubscription, hours, usd_per_kwh)
    needed = Provision(
        study=one_of_each(doc)[0].study.name,
        busy=full,
        hours=hours,
        usd_per_kwh=usd_per_kwh,
        needs=with_pareto(rows),
        cautions=cautions,
    )
    shown = provision_document(needed)
    if html is not None:
        write(shown, html)
    if as_json:
        print_json(needed)
        return
    show(shown, stdout())


@dataclass(frozen=True)
class _AskedServers:
    servers: list[tuple[DescribedServer, DescribedServer]]  # with those that have their costs
    factors: list[float]
    full: float
    within: float
    most: int


def _rows(
    doc: Document,
    asked: _AskedServers,
    oversubscription: list[str] | None,
    hours: float,
    usd_per_kwh: float | None,
) -> tuple[list[ServersNeeded], tuple[str, ...]]:
    """For each type of server and each factor; and the cautions."""
    from headrace.profile.chain_parts import in_parts
    from headrace.profile.placeable import Placeable
    from headrace.profile.provisioned import CAUTIONS, Costing, Provisioning
    from headrace.profile.provisioned_chains import CHAINS_CAUTION, ChainsProvisioning
    from headrace.profile.provisioned_hosted import HOSTED_CAUTION, HostedProvisioning

    experiments, pairs = one_of_each(doc), asked.servers
    costing = Costing(hours, usd_per_kwh)
    for described, _ in pairs:
        costing.check(described)
    if kind_of_placeable(doc, experiments) is Placeable:
        if oversubscription:
            raise bad_value("--oversubscription", oversubscription[0], allowed="of hosted VNFs")
        parts = in_parts(experiments, doc)
        inline = Provisioning(doc, parts, asked.full, asked.within, asked.most, costing)
        return [inline.needed(*pair, one) for pair in pairs for one in asked.factors], CAUTIONS
    ratios = sorted({_ratio(one) for one in oversubscription or ("1:1", "2:1", "4:1")})
    hosted: ChainsProvisioning | HostedProvisioning
    if len(experiments) > 1:
        told = CHAINS_CAUTION
        hosted = ChainsProvisioning(
            doc, experiments, ratios, asked.full, asked.within, asked.most, costing
        )
    else:
        told = HOSTED_CAUTION
        hosted = HostedProvisioning(doc, list(expand(doc)), ratios, asked.full, asked.most, costing)
    for pair in pairs:
        hosted.check(*pair)
    rows = [row for pair in pairs for one in asked.factors for row in hosted.needed(*pair, one)]
    return rows, (told, *hosted.links(home for _, home in pairs), *CAUTIONS)


def _ratio(given: str) -> int:
    number = given.removesuffix(":1")
    if number == given or not number.isdecimal() or not 1 <= int(number) <= 99:
        raise bad_value("--oversubscription", given, allowed="1:1 to 99:1")
    return int(number)
