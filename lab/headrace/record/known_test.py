# SPDX-License-Identifier: Apache-2.0
"""What is known of a bundle's study: of its own and of earlier forms, and of a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.record.bundle import Bundle, BundleError, BundleWriter
from headrace.record.known import KnownStudy, known
from headrace.record.resolved import Resolved, ResolvedFit
from headrace.spec.points import Wanted


def bundle(folder: Path, resolved: dict[str, Any]) -> Bundle:
    with BundleWriter(folder / "b") as w:
        w.spec("name: one\n", resolved)
    return Bundle(folder / "b")


def test_what_a_run_wrote_is_read(tmp_path: Path) -> None:
    server = {"name": "described", "paper": "a paper", "cores": 8}
    fit = ResolvedFit(
        chain="a", execution="rtc", workload="64B", study={"name": "one"}, lcores={"s": (1,)},
        server=server, unknowns={"copy": 2.5}, free=1, rejected={"row": "too few"},
    )  # fmt: skip
    whole = Resolved(
        experiments=(fit,), selection=Wanted(figure=3), compared={"a": "a-1", "b": "b-1"}
    )
    one = known(bundle(tmp_path, whole.as_json()))
    [point] = one.experiments
    assert (point.study, point.unknowns, point.free) == ({"name": "one"}, {"copy": 2.5}, 1)
    assert point.rejected == {"row": "too few"} and point.mode is None and point.deployed is None
    assert one.server is not None and one.server.whole == server
    assert one.selection == Wanted(figure=3) and one.compared == {"a": "a-1", "b": "b-1"}


def test_what_an_earlier_one_did_not_write_is_left_out(tmp_path: Path) -> None:
    assert known(bundle(tmp_path, {"chain": "edge"})) == KnownStudy()


@pytest.mark.parametrize(
    ("resolved", "place"),
    [
        ({"experiments": 7}, "experiments"),
        ({"experiments": ["x"]}, r"experiments\[0\]"),
        ({"experiments": [{"server": {}}]}, r"experiments\[0\].server.name"),
        ({"experiments": [{"nodes": 1, "role": 2}]}, r"experiments\[0\].deployed"),
        ({"selection": {"figure": "third"}}, "selection.figure"),
    ],
)
def test_a_strangers_is_refused_in_one_line(
    tmp_path: Path, resolved: dict[str, Any], place: str
) -> None:
    with pytest.raises(BundleError, match=rf"resolved\.json: {place}") as error:
        known(bundle(tmp_path, resolved))
    assert "\n" not in str(error.value)
