# SPDX-License-Identifier: Apache-2.0
"""A workload as the parameters of the engine's source link."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from headrace.engine.describe import Description, OtherEngine, check_file, translate
from headrace.errors import BadInput, HeadraceError
from headrace.spec.document import Document, PathKey
from headrace.spec.study import Experiment
from headrace.spec.workload import Headers, Packets, Pcap

# IPv6's share of the benchmarking addresses (RFC 5180); IPv4's (RFC 2544) are the engine's default.
_IPV6_SRC, _IPV6_DST = "2001:2:0:1::1", "2001:2:0:2::1"

# Where the user wrote what became a parameter of the source.
_SPEC_PATHS: dict[str, tuple[PathKey, ...]] = {
    "frame_bytes": ("workload", "frame"),
    "flows": ("workload", "flows", "count"),
    "vary": ("workload", "flows", "vary"),
    "order": ("workload", "flows", "order"),
    "zipf_s": ("workload", "flows", "zipf_exponent"),
    "seed": ("workload", "flows", "seed"),
    "protocol": ("workload", "headers", "l4"),
    "dst_macs": ("workload", "headers", "dst_mac"),
    "dst_ips_file": ("workload", "dst_ips_file"),
    "headers_file": ("workload", "tuples_file"),
    "pcap_file": ("workload", "file"),
    "pcap_timing": ("workload", "timing"),
    "stamp": ("workload", "stamp"),
}

_SWAP = {"src_ip": "dst_ip", "dst_ip": "src_ip", "src_port": "dst_port", "dst_port": "src_port"}


def spec_path(param: str) -> tuple[PathKey, ...]:
    """`frame_bytes[0]` of the source -> workload.frame of the spec."""
    name = param.partition("[")[0].partition(".")[0]
    return _SPEC_PATHS.get(name, ("workload", "headers", name))


def source_params(
    experiment: Experiment, direction: str, doc: Document, description: Description
) -> dict[str, Any]:
    """The source's parameters, checked by the engine's own schema."""
    workload = experiment.workload
    if isinstance(workload, Pcap):
        params = _replayed(workload, experiment, doc)
    else:
        params = _made(experiment, workload, direction, doc)
    schema = description.links["source"]["params"]
    for error in Draft202012Validator(schema).iter_errors(params):
        if error.validator == "additionalProperties":  # the spec's keys are the lab's
            raise OtherEngine(description.engine, f"its source has no such key: {error.message}")
        key = str(error.absolute_path[0]) if error.absolute_path else ""
        raise translate(error, doc, spec_path(key) if key else ("workload",))
    return params


def _replayed(workload: Pcap, experiment: Experiment, doc: Document) -> dict[str, Any]:
    file = doc.resolve(workload.file)
    check_file(file, doc, ("workload", "file"), workload.file)
    if workload.timing == "capture" and experiment.captured_bytes and not experiment.captured_pps:
        raise doc.error(
            ("workload", "timing"),
            f"all packets of {workload.file} have the same time; allowed: load",
            value=workload.timing,
        )
    return {"pcap_file": str(file), "stamp": False, "pcap_timing": workload.timing}


def _made(
    experiment: Experiment, workload: Packets, direction: str, doc: Document
) -> dict[str, Any]:
    headers = workload.headers
    params: dict[str, Any] = {
        "frame_bytes": list(experiment.frame.sizes),
        "flows": workload.flows.count,
        "vary": list(workload.flows.vary),
        "order": workload.flows.order,
        "seed": workload.flows.seed,
        "stamp": workload.stamp,
        "protocol": headers.l4,
    }
    if workload.flows.order == "zipf":
        params["zipf_s"] = workload.flows.zipf_exponent
    params |= _addresses(headers)
    if direction == "reverse":
        # Replies: the same flows seen from the other end.
        params["vary"] = [_SWAP[key] for key in params["vary"]]
        swapped = {_SWAP[key]: params.pop(key) for key in _SWAP if key in params}
        params |= swapped
    for key, param in (("dst_ips_file", "dst_ips_file"), ("tuples_file", "headers_file")):
        given = getattr(workload, key)
        if given is not None:
            file = doc.resolve(given)
            check_file(file, doc, ("workload", key), given)
            params[param] = str(file)
    if workload.tuples_file is not None and "count" not in workload.flows.model_fields_set:
        params["flows"] = 1  # the engine's way to say: all of the trace
    return params


def _addresses(headers: Headers) -> dict[str, Any]:
    ranges: dict[str, Any] = {}
    for key in ("src_ip", "dst_ip", "src_port", "dst_port", "src_mac", "vlan", "dscp", "ttl"):
        value = getattr(headers, key)
        if value is not None:
            ranges[key] = value
    if headers.l3 == "ipv6":
        ranges = {"src_ip": _IPV6_SRC, "dst_ip": _IPV6_DST, **ranges}
    if headers.dst_mac:
        ranges["dst_macs"] = list(headers.dst_mac)
    return ranges


def refusal(place: str, problem: str, experiment: Experiment, doc: Document) -> HeadraceError:
    """What the engine found wrong in the plan, named by its place in the spec."""
    parts = place.split(".")
    if parts[0] == "nfs" and len(parts) > 1:
        for node, at in zip(experiment.nodes, experiment.node_paths, strict=True):
            if node.name == parts[1]:
                rest = parts[3:] if parts[2:3] == ["params"] else parts[2:]
                return doc.error((*at, *rest), problem)
    if parts[0] == "links" and (port := _port_of(parts, experiment)) is not None:
        return doc.error(port, problem)
    if parts[0] == "links" and parts[2:] == ["params", "devargs"]:  # of no source
        return doc.error(("deployment", "network"), f"{parts[1]}: {problem}")
    if parts[0] == "links" and len(parts) > 3 and parts[2] == "params":
        return doc.error(spec_path(".".join(parts[3:])), problem)
    if parts[0] == "links" and parts[1:2] and parts[1].startswith("gen-"):
        return doc.error(_file_of(problem, experiment, doc), problem)
    if parts == ["engine"]:  # the machine's doing, such as hugepages that others took meanwhile
        return HeadraceError(f"engine: {problem}")
    if parts[0] == "engine":
        return doc.error(("deployment", *parts[1:]), problem)
    if parts[0].startswith("functions["):
        return doc.error(("deployment", "functions"), problem)
    if parts[0].startswith("segments") and parts[1:2] == ["parallel"]:
        return doc.error(("deployment", "execution", "parallel"), problem)
    if parts[0].startswith("segments"):
        return doc.error(("deployment",), f"{place}: {problem}")
    return BadInput(f"{place}: {problem}" if place else problem)


def _port_of(parts: list[str], experiment: Experiment) -> tuple[PathKey, ...] | None:
    """Where the spec says what is wrong with a port's link; None: it is no port of the testbed."""
    testbed = experiment.study.testbed
    if testbed is None or parts[1] not in testbed.ports:
        return None
    keys = {"devargs": ("device",), "rss_key": ("rss", "key"), "rss_fields": ("rss", "fields")}
    last = parts[-1].partition("[")[0]
    return ("testbed", "ports", parts[1], *keys.get(last, (last,)))


def _file_of(problem: str, experiment: Experiment, doc: Document) -> tuple[PathKey, ...]:
    """Which of the workload's files a complaint about the source is of."""
    for key in ("file", "tuples_file", "dst_ips_file"):
        given = getattr(experiment.workload, key, None)
        if given is not None and str(doc.resolve(given)) in problem:
            return ("workload", key)
    return ("workload",)
