# SPDX-License-Identifier: Apache-2.0
"""headrace export: a study's deployments for other tools to apply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
import yaml

from headrace.analyse.units import plural
from headrace.cli._console import print_json
from headrace.cli._folder import make_folder
from headrace.cli._groups import chosen, cluster
from headrace.cli._study_run import open_spec
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.appliances.ground import AppliancePoint
from headrace.ground.choose import Grounds
from headrace.ground.kubernetes.manifests import Attachment, Manifest, PodNetwork, manifests
from headrace.host.consoles import Terminal
from headrace.record.bundle import write_whole
from headrace.record.outputs import ExportOutput
from headrace.spec.points import Wanted

app = typer.Typer(no_args_is_help=True, help="Write a study's deployments for other tools.")
_KINDS: dict[str, Attachment] = {"bridge": "bridge", "macvlan": "macvlan", "sriov": "sriov"}
_FILES = {"Namespace": "namespace.yaml", "Pod": "pods.yaml"}
_HEAD = (
    "# Written by `headrace export kubernetes`. `kubectl apply -k` this folder; deleting the\n"
    "# namespace undoes all of it.\n"
)


@dataclass(frozen=True)
class NetworkOptions:
    """Options as they are given on the command line."""

    network: str | None
    master: str | None
    resource: str | None
    nodes: tuple[str, ...]


@app.callback()
def _root() -> None:
    """Write a study's deployments for other tools."""


@app.command()
def kubernetes(
    spec: Annotated[Path, typer.Argument(help="A study with third-party VNFs.")],
    folder: Annotated[Path, typer.Argument(help="Where a folder for each point is made.")],
    network: Annotated[
        str | None,
        typer.Option(help="bridge, macvlan or sriov; the study's unless given."),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="macvlan: the device of all nodes that joins them.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option(help="sriov: the device plugin's name of virtual functions.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(help="NODE for all pods, or CONTAINER=NODE for one. Several."),
    ] = None,
    point: Annotated[str | None, typer.Option(help="Only this point, by its number.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print which folders were made.")] = False,
) -> None:
    """Write the manifests (kustomize) of each point: networks by Multus, a pod for each VNF."""
    doc = open_spec(spec, trusted=False)
    checked = chosen(doc, Wanted(point=point), cluster()).checked(Grounds().check, all_right=True)
    every = [one for one in checked.points if isinstance(one, AppliancePoint)]
    if not every:
        raise BadInput(
            f"{spec}: has no third-party VNFs; allowed: deployment.hosting.kind: appliances"
        )
    make_folder(folder, "DIR")
    options = NetworkOptions(network, master, resource, tuple(node or ()))
    output = _exported(every, str(doc.data["name"]), point, folder, options)
    if as_json:
        print_json(output)
        return
    for name, why in output.left_out.items():
        Terminal(stderr=True, highlight=False, soft_wrap=True).print(
            f"left out: {name}: {why}", markup=False
        )
    if not output.folders:
        raise HeadraceError("no point of the study can be deployed on Kubernetes so")
    first = output.folders[0]
    print(f"{folder}: {plural(len(output.folders), 'deployment')}; kubectl apply -k {first}")


def _exported(
    points: list[AppliancePoint],
    study: str,
    only: str | None,
    folder: Path,
    options: NetworkOptions,
) -> ExportOutput:
    """`only`: the number of the one point; what it lacks ends the command."""
    folders, left_out, width = [], {}, len(str(len(points)))
    for number, one in enumerate(points, 1):
        name = f"{study}-{int(only or number):0{width}}".lower().replace("_", "-")
        try:
            network = _network(one, options)
            layout, supplies = one.point.layout, one.point.supplies
            objects = manifests(f"headrace-{name}", layout, supplies, network)
        except BadInput as why:
            if only is not None:
                raise
            left_out[f"{name}, {one.chain}, {one.execution}"] = str(why)
            continue
        _write(folder / name, objects)
        folders.append(str(folder / name))
    return ExportOutput(folders=tuple(folders), left_out=left_out)


def _network(point: AppliancePoint, options: NetworkOptions) -> PodNetwork:
    network, master, resource = options.network, options.master, options.resource
    nodes = options.nodes
    kind = _KINDS.get(network or point.point.network)
    if kind is None:
        place = "--network" if network else "deployment.hosting.network"
        asked = network or point.point.network
        raise bad_value(place, asked, allowed=f"on Kubernetes: {', '.join(_KINDS)}")
    for option, value, of in (("--master", master, "macvlan"), ("--resource", resource, "sriov")):
        if kind == of and not value:
            raise bad_value(option, allowed=f"a name, as the network is {of}")
        if kind != of and value:
            raise bad_value(option, value, allowed=f"with network {of}")
    where = dict(map(_placed, nodes))
    names = {node.name for node in point.point.layout.nodes}
    unknown = sorted(set(where) - names - {""})
    if unknown:
        allowed = f"CONTAINER=NODE with {', '.join(sorted(names))}"
        raise bad_value("--node", unknown[0], allowed=allowed)
    if kind == "bridge" and len(set(where.values())) > 1:
        raise bad_value("--node", ", ".join(nodes), allowed="one node: a bridge is a node's own")
    if kind == "bridge" and where:
        where = {"": next(iter(where.values()))}
    return PodNetwork(kind, master or "", resource or "", where)


def _placed(text: str) -> tuple[str, str]:
    container, _, node = text.rpartition("=")
    return container, node


def _write(folder: Path, objects: tuple[Manifest, ...]) -> None:
    make_folder(folder, "DIR")
    files: dict[str, list[Manifest]] = {}
    for one in objects:
        files.setdefault(_FILES.get(one.kind, "networks.yaml"), []).append(one)
    for name, ones in files.items():
        write_whole(folder / name, "---\n".join(_yaml(one.body) for one in ones))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }
    write_whole(folder / "kustomization.yaml", _HEAD + _yaml(kustomization))


def _yaml(body: object) -> str:
    return yaml.safe_dump(body, sort_keys=False, default_flow_style=False, width=1000)
