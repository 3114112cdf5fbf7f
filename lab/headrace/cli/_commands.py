# SPDX-License-Identifier: Apache-2.0
"""The commands, grouped by what a user wants to do, as `headrace --help` prints them.

It imports no command: loading all of them takes a second, and the list is what one asks for first.
"""

from __future__ import annotations

WIDTH = 80

FIRST = {
    "run": "Measure a study: deploy, warm up, verify, search; leave a bundle.",
    "report": "Show the results of a bundle and the evidence for each.",
    "explain": "Name the narrowest part, the evidence, and what would move it.",
    "doctor": "Say what this machine can do, what is missing, and how to mend it.",
}
GROUPS = {
    "First": FIRST,
    "Write": {
        "init": "Write a first spec that runs, or one with the traffic of a capture.",
        "schema": "Print the JSON Schema of specs, by which editors complete and check.",
    },
    "Measure": {
        "campaign": "Measure each point of a study by itself, resumed after a kill.",
        "profile": "Measure what one function costs, and what a neighbour does to it.",
        "bench": "Measure parts of the engine by themselves.",
        "operate": "Keep an SLO under a load that changes, with few lcores.",
    },
    "Understand": {
        "compare": "Measure two specs, or two engines, in turn: paired ratios.",
        "diff": "Compare two bundles: results, spread, and what surrounded them.",
        "serve": "Show a folder's bundles in a browser: trends, search, comparison.",
        "collect": "Sample all five layers while a command runs.",
        "trace": "Follow packets through the kernel: latency by stage and device.",
    },
    "Plan": {
        "plan": "Find the layout of a chain with the highest predicted throughput.",
        "fit": "Fit a model to a few rows of a published table, predict the others.",
        "provision": "Say how many servers of which type carry chains, and at what cost.",
        "chains": "Generate or count the chain graphs that a set of VNFs can make.",
    },
    "Host": {
        "hosting": "Say how many VNFs a server hosts, where packets wait, if it works.",
        "export": "Write the deployments of a study as manifests of Kubernetes.",
        "offload": "Run VNFs that keep their control plane while the host forwards.",
    },
    "VNFs": {
        "nf": "List the engine's functions; begin one of your own (`nf new NAME`).",
        "vnf": "List, describe and build third-party VNFs in containers.",
    },
    "Machine": {
        "server": "Detect what this server consists of, and calibrate its memory.",
        "tune": "Try settings for traffic inside one server, then undo them.",
        "clean": "Undo what killed runs left: engines, sockets, hugepages.",
        "agent": "Do what the lab on another server asks (a study with `servers`).",
    },
}
OPTIONS = {
    "--version": "Print the version.",
    "--install-completion": "Let the shell complete commands and options.",
    "--show-completion": "Print what --install-completion would install.",
    "--help": "Print this list; after a command, its options.",
}


def listed() -> list[str]:
    """Every command, in the order of the list."""
    return [name for group in GROUPS.values() for name in group]


def command_list() -> str:
    lines = [
        "Usage: headrace COMMAND [OPTIONS] [ARGUMENTS]",
        "",
        "Deploy, drive, measure and explain chains of network functions.",
    ]
    for title, entries in {**GROUPS, "Options": OPTIONS}.items():
        width = max(9, *(len(name) + 2 for name in entries))
        lines += ["", f"{title}:", *(f"  {name:{width}}{text}" for name, text in entries.items())]
    return "\n".join(lines) + "\n"
