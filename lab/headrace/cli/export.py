# SPDX-License-Identifier: Apache-2.0
"""headrace export: a study's deployments for other tools to apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from headrace.analyse.units import plural
from headrace.cli._folder import make_folder
from headrace.cli._groups import chosen
from headrace.cli._study_run import open_spec
from headrace.errors import BadInput, HeadraceError, bad_value
from headrace.ground.appliances.ground import AppliancePoint
from headrace.ground.choose import Grounds
from headrace.ground.kubernetes.manifests import Attachment, Manifest, PodNetwork, manifests
from headrace.record.bundle import write_whole
from headrace.spec.points import Wanted

app = typer.Typer(no_args_is_help=True, help="Write a study's deployments for other tools.")
_KINDS: dict[str, Attachment] = {"bridge": "bridge", "macvlan": "macvlan", "sriov": "sriov"}
_FILES = {"Namespace": "namespace.yaml", "Pod": "pods.yaml"}
_HEAD = (
    "# Written by `headrace export kubernetes`. `kubectl apply -k` this folder; deleting the\n"
    "# namespace undoes all of it.\n"
)


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
    point: Annotated[str | None, typer.Option(help="Only this point.")] = None,
) -> None:
    """Write the manifests (kustomize) of each point: networks by Multus, a pod for each VNF."""
    doc = open_spec(spec, trusted=False)
    checked = chosen(doc, Wanted(point=point)).checked(Grounds().check, all_right=True)
    every = [one for one in checked.points if isinstance(one, AppliancePoint)]
    if not every:
        raise BadInput(
            f"{spec}: has no third-party VNFs; allowed: deployment.hosting.kind: appliances"
        )
    make_folder(folder, "DIR")
    width, written, left_out = len(str(len(every))), [], []
    for number, one in enumerate(every, 1):
        key = point.zfill(width) if point else f"{number:0{width}}"
        name = f"{doc.data['name']}-{key}".lower().replace("_", "-")
        try:
            joined = _network(one, network, master, resource, node or [])
            objects = manifests(f"headrace-{name}", one.point.layout, one.point.supplies, joined)
        except BadInput as why:
            if point is not None:
                raise
            left_out.append(f"{name}: {one.chain}, {one.execution}: {why}")
            continue
        _write(folder / name, objects)
        written.append(name)
    for text in left_out:
        typer.echo(f"left out: {text}", err=True)
    if not written:
        raise HeadraceError("no point of the study can be deployed on Kubernetes so")
    count = plural(len(written), "deployment")
    typer.echo(f"{folder}: {count}; kubectl apply -k {folder / written[0]}")


def _network(
    point: AppliancePoint,
    network: str | None,
    master: str | None,
    resource: str | None,
    nodes: list[str],
) -> PodNetwork:
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
