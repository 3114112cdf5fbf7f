# SPDX-License-Identifier: Apache-2.0
"""Whose figures links to virtual machines are: headrace measured none that was not emulated."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.spec.described import DescribedServer, figures_of
from headrace.spec.study import Experiment


def machines_cautions(home: DescribedServer) -> tuple[str, ...]:
    """Names the sources of a description's `machines`."""
    if home.machines is None:
        return ()
    named = dict.fromkeys(figure.source for _, figure in figures_of(home.machines))
    sources = "; ".join(f"{home.sources[one].kind}: {home.sources[one].text}" for one in named)
    return (
        f"What links to machines cost is the description's own (`machines` of {home.name}: "
        f"{sources}), and was not measured by headrace.",
    )


def links_cautions(experiment: Experiment, homes: Iterable[DescribedServer]) -> tuple[str, ...]:
    """Names them where its VNFs are in machines, each text once."""
    if experiment.hosting.kind != "vm":
        return ()
    return tuple(dict.fromkeys(text for home in homes for text in machines_cautions(home)))
