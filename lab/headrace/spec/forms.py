# SPDX-License-Identifier: Apache-2.0
"""Which keys of a study belong to which kinds of hosting and of workload, and what the keys are
called now that older specs had. Looked up as it was written, so that errors name the line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import BadInput, shown
from headrace.spec.appliance import Appliances
from headrace.spec.base import Spec
from headrace.spec.deployment import HOSTING_KINDS, Deployment
from headrace.spec.document import Document, PathKey, dotted
from headrace.spec.hosting import KINDS, Hosting
from headrace.spec.offload import Offload
from headrace.spec.older_keys import in_a_line, renewed
from headrace.spec.workload import WORKLOAD_KINDS

Path = tuple[PathKey, ...]

_FUNCTIONS, _APPLIANCES, _OFFLOAD = KINDS, ("appliances",), ("offload",)
_ALSO = {"hugepages": _OFFLOAD, "memory_mb": _OFFLOAD, "lcores": _APPLIANCES}
# Keys that not every kind of hosting takes.
_HOSTED: dict[Path, tuple[str, ...]] = {
    ("chain",): (*_FUNCTIONS, *_APPLIANCES),
    ("chains",): (*_FUNCTIONS, *_APPLIANCES),
    ("demands",): _FUNCTIONS,
    ("graphs",): _APPLIANCES,
    ("baseline",): _APPLIANCES,
    ("alone",): _APPLIANCES,
    ("scale_out",): _APPLIANCES,
    ("testbed",): ("inline",),
    ("servers",): ("inline", *_APPLIANCES),
    ("measure", "chaos"): ("process", "container", "vm", *_OFFLOAD),
    ("measure", "convergence"): _OFFLOAD,
    ("measure", "operate"): ("inline",),
    **{
        ("deployment", key): (*_FUNCTIONS, *_ALSO.get(key, ()))
        for key in Deployment.model_fields
        if key != "hosting"
    },
}
_CARRIED = {"appliances": WORKLOAD_KINDS, "offload": ("packets",)}
# Keys of packets that not every kind of hosting takes.
_SENT: dict[Path, tuple[str, ...]] = {
    ("link",): _APPLIANCES,
    **{
        (key,): _FUNCTIONS
        for key in (
            "headers",
            "dst_ips_file",
            "tuples_file",
            "direction",
            "stamp",
            "timing",
            "load",
        )
    },
    **{("flows", key): _FUNCTIONS for key in ("vary", "order", "zipf_exponent", "seed")},
}
THIRD_PARTY = "third-party VNFs are `deployment: {hosting: {kind: appliances}}`"
# Keys of older specs, and what took their place.
_OLD: dict[Path, str] = {
    ("base",): "the keys below it are the study's own, beside `groups`",
    ("appliances",): "now `images` of `deployment: {hosting: {kind: appliances}}`",
    ("vnfs",): "now `vnfs` of `deployment: {hosting: {kind: appliances}}`, or of `{kind: offload}`",
    ("ports",): "now `ports` of `deployment: {hosting: {kind: offload}}`",
    ("lcore",): "now `lcore` of `deployment: {hosting: {kind: offload}}`",
    ("punt_pps",): "now `punt_pps` of `deployment: {hosting: {kind: offload}}`",
    ("hugepages",): "now `deployment: {hugepages}`",
    ("memory_mb",): "now `deployment: {memory_mb}`",
    ("deployment", "servers"): "now `servers` of `hosting: {kind: appliances}`",
}
# Keys of a published table that a model is fitted to, which was once a spec of another kind.
_OLD_FIT = ("server", "model", "rows", "unknowns", "known", "points")
_OLD |= {
    ("about",): "now `description`",
    ("source",): "now `paper`",
    ("data",): "now `table` of `ground: {fitted: {...}}`",
    **{(key,): f"now `{key}` of `ground: {{fitted: {{...}}}}`" for key in _OLD_FIT},
}
_OF_TABLES = ("name", "description", "paper", "ground", "claims")
_OLD_WORKLOAD = {
    "duration": "now `measure: {trial}`",
    "warmup": "now the study's own `warmup`",
    "rate": "now `measure: {loads: [10k]}`",
    "lcore": "now `deployment: {lcores: {traffic: [1]}}`",
}
_NO_FUNCTIONS_NETWORKS = {"ovs", "macvlan"}  # of which headrace's own functions have none


def check(doc: Document, data: dict[str, Any], swept: Iterable[str] = ()) -> None:
    """Refuses the first key that is not where it belongs."""
    first = next(_problems(data), None)
    if first is not None:
        path, problem = first
        raise misplaced(doc, path, problem, swept)


def misplaced(doc: Document, path: Path, problem: str, swept: Iterable[str] = ()) -> BadInput:
    """An error at a path, which is the sweep's where that set the value."""
    text = dotted(path)
    for key in swept:
        if key == text or key.startswith(f"{text}.") or text.startswith((f"{key}.", f"{key}[")):
            return doc.error(("sweep", key), problem)
    return doc.error(path, problem)


def hosting_kind(data: Any) -> str:
    """The kind of hosting that is written; what is none is left for the model to refuse."""
    deployment = data.get("deployment") if isinstance(data, dict) else None
    hosting = deployment.get("hosting") if isinstance(deployment, dict) else None
    kind = hosting.get("kind") if isinstance(hosting, dict) else hosting
    return kind if isinstance(kind, str) and kind in HOSTING_KINDS else "inline"


def _problems(data: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    kind = hosting_kind(data)
    yield from _of_a_table(data)
    yield from _third_party(data, kind)
    for key in ("compare", "chaos", "convergence"):
        if key in data:
            yield (key,), renewed(key, data[key])
    for path, words in _OLD.items():
        if _at(data, path) is not None:
            yield path, words
    for path, kinds in _HOSTED.items():
        if kind not in kinds and _at(data, path) is not None:
            yield path, _belongs(path, kind, kinds)
    yield from _other_kinds_keys(data, kind)
    yield from _workloads(data, kind)


def _belongs(path: Path, kind: str, kinds: tuple[str, ...]) -> str:
    moved = path[0] == "deployment" and path[-1] in Appliances.model_fields and kind == "appliances"
    there = f"; with {kind} it is deployment.hosting.{path[-1]}" if moved else ""
    return f"belongs to hosting {', '.join(kinds)}; got hosting {kind}{there}"


def _of_a_table(data: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Keys that a published table cannot take: others chose what was deployed and measured."""
    if _at(data, ("ground", "fitted")) is None:
        return
    for key in data:
        if key not in _OF_TABLES:
            yield (key,), f"not of a published table; allowed with it: {', '.join(_OF_TABLES)}"


def _third_party(data: dict[str, Any], kind: str) -> Iterator[tuple[Path, str]]:
    """`hosting: container` once meant third-party VNFs."""
    if kind != "container":
        return
    network = _at(data, ("deployment", "network"))
    hosting = {"kind": "appliances"} | ({} if network is None else {"network": network})
    third_party = (
        "for headrace's own functions; third-party VNFs are "
        f"`{in_a_line({'deployment': {'hosting': hosting}})}`"
    )
    names = network if isinstance(network, list) else [network]
    if isinstance(network, list) or any(name in _NO_FUNCTIONS_NETWORKS for name in names):
        yield ("deployment", "network"), f"got hosting container, {third_party}"
    for key in ("appliances", "vnfs", "graphs", "baseline", "alone", "scale_out"):
        if key in data:
            yield (key,), f"got hosting container, {third_party}"


def _other_kinds_keys(data: dict[str, Any], kind: str) -> Iterator[tuple[Path, str]]:
    """A key of another kind of hosting says so, rather than that it is unknown."""
    hosting = _at(data, ("deployment", "hosting"))
    if not isinstance(hosting, dict):
        return
    models: dict[tuple[str, ...], type[Spec]] = {
        KINDS: Hosting, _APPLIANCES: Appliances, _OFFLOAD: Offload
    }  # fmt: skip
    own = next(model for kinds, model in models.items() if kind in kinds)
    for key in hosting:
        others = [k for kinds, model in models.items() if key in model.model_fields for k in kinds]
        if key not in own.model_fields and others:
            yield (
                ("deployment", "hosting", key),
                f"belongs to hosting {', '.join(others)}; got kind {kind}",
            )


def _workloads(data: dict[str, Any], kind: str) -> Iterator[tuple[Path, str]]:
    given = data.get("workload")
    entries: list[tuple[Path, Any]] = (
        [(("workload", i), one) for i, one in enumerate(given)]
        if isinstance(given, list)
        else [(("workload",), given)]
    )
    for at, one in entries:
        if isinstance(one, dict):
            yield from _workload(at, one, kind)


def _workload(at: Path, one: dict[str, Any], hosting: str) -> Iterator[tuple[Path, str]]:
    kind = one.get("kind", "packets")
    allowed = _CARRIED.get(hosting, ("packets", "pcap"))
    if kind not in WORKLOAD_KINDS:
        yield (*at, "kind"), f"got {shown(kind)}; allowed: {', '.join(allowed)}"
    elif kind not in allowed:
        also = "" if hosting in _CARRIED else "; with hosting appliances, any"
        yield (
            (*at, "kind"),
            f"got {shown(kind)}; allowed with hosting {hosting}: {', '.join(allowed)}{also}",
        )
    for key, words in _OLD_WORKLOAD.items():
        if key in one:
            yield (*at, key), words
    if "pcap" in one:
        yield (*at, "pcap"), f"now `{{kind: pcap, file: {one['pcap']}}}`"
    for path, kinds in _SENT.items():
        taken = (*kinds, *_FUNCTIONS) if kind == "pcap" and path == ("direction",) else kinds
        if hosting not in taken and _at(one, path) is not None:
            yield (*at, *path), f"belongs to hosting {', '.join(taken)}; got hosting {hosting}"


def _at(data: Any, path: Path) -> Any:
    """What stands at a path; None where nothing does."""
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return None
        data = data[key]
    return data if data is not None else {}
