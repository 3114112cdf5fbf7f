# SPDX-License-Identifier: Apache-2.0
"""headrace provision: how many servers of which type carry a study's chains."""

from __future__ import annotations

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
from headrace.spec.provision import Provision
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
    within: Annotated[
        float, typer.Option(min=0.5, max=3600, help="Seconds for each placement.")
    ] = 3.0,
    html: Annotated[Path | None, typer.Option(help="Write the page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is needed.")] = False,
) -> None:
    """How many servers of each type carry the chains of a study, and what they cost."""
    from headrace.profile.placeable import Placeable
    from headrace.profile.provisioned import CAUTIONS, Provisioning, with_pareto
    from headrace.profile.provisioned_hosted import HOSTED_CAUTION, HostedProvisioning

    doc = open_spec(spec, trusted=False)
    factors = sorted(set(factor or (0.5, 1.0, 2.0)))
    for one in factors:
        if not 0.001 <= one <= 1000:
            raise bad_value("--factor", one, allowed="0.001 to 1000")
    full = share_of("--busy", busy)
    experiments = one_of_each(doc)
    files = dict.fromkeys(server_given(doc, name).resolve() for name in server)
    pairs = [with_costs(file) for file in files]
    if kind_of_placeable(doc, experiments) is Placeable:
        if oversubscription:
            raise bad_value("--oversubscription", oversubscription[0], allowed="of hosted VNFs")
        inline = Provisioning(doc, experiments, full, within, most)
        rows = [inline.needed(*pair, one) for pair in pairs for one in factors]
        cautions = CAUTIONS
    else:
        ratios = [_ratio(one) for one in oversubscription or ("1:1", "2:1", "4:1")]
        hosted = HostedProvisioning(doc, list(expand(doc)), sorted(set(ratios)), full, most)
        for pair in pairs:
            hosted.check(*pair)
        rows = [row for pair in pairs for one in factors for row in hosted.needed(*pair, one)]
        cautions = (HOSTED_CAUTION, *CAUTIONS)
    needed = Provision(
        study=experiments[0].study.name,
        busy=full,
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


def _ratio(given: str) -> int:
    number = given.removesuffix(":1")
    if number == given or not number.isdecimal() or not 1 <= int(number) <= 99:
        raise bad_value("--oversubscription", given, allowed="1:1 to 99:1")
    return int(number)
