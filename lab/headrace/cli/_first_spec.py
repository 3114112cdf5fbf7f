# SPDX-License-Identifier: Apache-2.0
"""The text of a spec to begin with: every line is there to be changed."""

from __future__ import annotations

import ipaddress
import json
import re

from headrace.analyse.units import plural
from headrace.cli._capture import Capture, CapturedFlow

SCHEMA_FILE = "headrace.schema.json"
_PROTOCOLS = {6: "tcp", 17: "udp"}
_STAMPED_MIN = {6: 74, 17: 64}  # bytes of a frame that has room for a stamp: IPv4; IPv6: 20 more

_HEAD = """\
# yaml-language-server: $schema={schema}
name: {name}
description: {description}
"""
_TAIL = """\
deployment:
  execution: [rtc, pipeline]   # all functions on one lcore; an lcore for each
measure:
  search: [ndr, pdr]           # loads at which at most 0.001 % and 0.1 % are lost
  # Short, for a first look; leave `goals` out for figures that others shall believe.
  goals: {initial_trial: 0.3 s, final_trial: 0.5 s, duration_sum: 2 s, width: 2%}
"""
_PLAIN = """\
chain:                         # `headrace nf` lists functions, `headrace nf acl` one's parameters
  - acl:
      rules:
        - {action: permit, proto: udp, dst: 198.19.0.0/16}
      default: deny
  - l3fwd:
      routes:
        - {prefix: 198.19.0.0/16, next_hop: 0}
      next_hops:
        - {dst_mac: "02:00:00:00:03:01"}
workload:
  frame: 64                    # bytes with FCS; a list is swept, as [64, 512, nfvbench]
  flows: 4096
  headers: {src_ip: 198.18.0.1, dst_ip: 198.19.0.1, dst_port: 80}
"""


def plain(name: str) -> str:
    return _head(name, "A small firewall and router.") + _PLAIN + _TAIL


def _head(name: str, about: str) -> str:
    quoted = json.dumps(about, ensure_ascii=False)
    return _HEAD.format(schema=SCHEMA_FILE, name=name, description=quoted)


def _scalar(file: str) -> str:
    """A file's name as YAML has it, whatever characters it has."""
    plain_one = re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./-]*", file)
    return file if plain_one else json.dumps(file, ensure_ascii=False)


def of_capture(name: str, file: str, capture: Capture, tuples: str) -> str:
    """The chain lets all of its packets pass: rules and functions are the user's to change.

    `file`, `tuples`: as the spec names them.
    """
    flows = made_flows(capture)
    if not flows:
        return _replay(name, file, capture)
    about = (
        f"The traffic of {file}: {plural(capture.packets, 'packet')} in "
        f"{plural(len(capture.flows), 'flow')}, of these {plural(len(flows), 'flow')} made here."
    )
    protocols = dict.fromkeys(flow.protocol for flow in flows)
    rules = "\n".join(
        f"        - {{action: permit, proto: {_PROTOCOLS.get(one, repr(str(one)))}}}"
        for one in protocols
    )
    mix = capture.mix()
    sizes = ", ".join(f"{size}: {weight}" for size, weight in mix.items())
    least = 20 * flows[0].ipv6 + max(_STAMPED_MIN.get(one, 64) for one in protocols)
    workload = f"  frame: {{mix: {{{sizes}}}}}   # bytes with FCS, and weights\n"
    if flows[0].ipv6:
        workload += _ipv6(flows)
    else:
        workload += (
            f"  tuples_file: {_scalar(tuples)}   # addresses, ports and protocol of each flow\n"
        )
    if min(mix) < least:
        workload += f"  stamp: false   # below {least} bytes there is no room for one: no latency\n"
    return (
        _head(name, about)
        + f"chain:   # `headrace nf` lists functions\n  - acl:\n      rules:\n{rules}\n"
        + "      default: deny\n  - l2fwd: {}\n"
        + f"workload:   # or the packets themselves: {{kind: pcap, file: {_scalar(file)}}}\n"
        + workload
        + _TAIL
    )


def _replay(name: str, file: str, capture: Capture) -> str:
    about = f"{file}: {plural(capture.packets, 'packet')}, none of a flow that can be made here."
    return (
        _head(name, about)
        + f"chain: [l2fwd]\nworkload: {{kind: pcap, file: {_scalar(file)}}}\n"
        + _TAIL
    )


def _ipv6(flows: list[CapturedFlow]) -> str:
    """Header traces are of IPv4; of IPv6 the first flow's headers count up."""
    first = flows[0]
    count = f"  flows: {{count: {len(flows)}, vary: [src_port]}}\n"
    return count + (
        f"  headers: {{l3: ipv6, l4: {_PROTOCOLS[first.protocol]}, src_ip: "
        f'"{ipaddress.ip_address(first.src)}", dst_ip: "{ipaddress.ip_address(first.dst)}", '
        f"src_port: {first.src_port}, dst_port: {first.dst_port}}}\n"
    )


def made_flows(capture: Capture) -> list[CapturedFlow]:
    """The flows that a source can make: IPv4's; where there are none, IPv6's of TCP or UDP,
    whichever has more; none of other frames."""
    ipv4 = [flow for flow in capture.flows if not flow.ipv6]
    known = [flow for flow, _ in capture.flows.most_common() if flow.protocol in _PROTOCOLS]
    return ipv4 or [flow for flow in known if flow.protocol == known[0].protocol]


def trace(flows: list[CapturedFlow]) -> str:
    """ClassBench's header trace: source, destination, ports, protocol, in decimal."""
    return "".join(
        f"{int.from_bytes(f.src)}\t{int.from_bytes(f.dst)}\t{f.src_port}\t{f.dst_port}\t{f.protocol}\n"
        for f in flows
    )
