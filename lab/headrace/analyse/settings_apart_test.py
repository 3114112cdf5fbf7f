# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.analyse.settings_apart import settings_apart
from headrace.record.points import PointRow

PATH = "deployment.hosting"


def told(*values: object, group: str = "g") -> list[object]:
    points = [PointRow(point=f"p-{i}", group=group, values={PATH: v}) for i, v in enumerate(values)]
    return [one.values[PATH] for one in settings_apart(points)]


def test_what_all_points_of_a_group_have_tells_none_from_another() -> None:
    one = {"kind": "process", "oversubscription": "1:1", "chains": 1}
    other = {"kind": "vm", "oversubscription": "1:1", "chains": 10, "vm": {"vcpus": 2}}
    assert told(one, {**one, "chains": 20}) == ["chains 1", "chains 20"]
    assert told(one, other) == ["kind process, chains 1", "kind vm, chains 10, vm {vcpus: 2}"]


def test_other_values_stay_as_they_are() -> None:
    assert told(1, 2) == [1, 2] and told({"kind": "vm"}) == [{"kind": "vm"}]
    assert told("veb", {"kind": "vm"}) == ["veb", {"kind": "vm"}]
