# SPDX-License-Identifier: Apache-2.0
"""A difference counts only beyond the spread, and only between figures that may be trusted."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.analyse.diff import Diff, MetricChange, Significance, compare, diff, permutation_p
from headrace.analyse.gate import METRICS
from headrace.analyse.summary import ResultKey, summarise
from headrace.record.bundle import Bundle
from headrace.record.rows import Bounds
from headrace.record.testdata import make_bundle


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "slower"
    return make_bundle(path, repetitions=4, speed=0.9, seed=5, governor="powersave")


@pytest.fixture(scope="module")
def compared(bundle_path: Path, slower: Path) -> Diff:
    return diff(Bundle(bundle_path), Bundle(slower))


def change(compared: Diff, execution: str, metric: str) -> MetricChange:
    row = next(
        c for c in compared.compared if c.key.execution == execution and c.key.ground == "measured"
    )
    return next(c for c in row.changes if c.metric == metric)


def test_a_slower_run_is_worse(compared: Diff) -> None:
    throughput = change(compared, "rtc", "throughput")
    assert throughput.significance == "different" and throughput.better is False
    assert throughput.ratio == pytest.approx(-0.1, abs=0.03)
    assert change(compared, "rtc", "cycles acl").significance == "within-spread"


def test_percentiles_have_the_names_that_users_know(compared: Diff) -> None:
    tail, beyond = change(compared, "rtc", "latency p99"), change(compared, "rtc", "latency p99.9")
    assert tail.a < beyond.a and tail.b < beyond.b
    metrics = {one.metric for row in compared.compared for one in row.changes}
    assert not [one for one in metrics if "p999" in one]
    assert {one for one in metrics if one.startswith("latency ")} <= set(METRICS)


def test_an_untrusted_rate_is_not_compared(compared: Diff) -> None:
    assert change(compared, "rtc x 3", "throughput").significance == "not-trusted"
    # Nor what was measured at that rate: a chain that waits for its generator pays more a packet.
    assert change(compared, "rtc x 3", "cycles acl").significance == "not-trusted"
    assert change(compared, "rtc x 3", "latency p99").significance == "not-trusted"


def test_a_goal_that_no_load_met_is_not_compared(bundle_path: Path) -> None:
    """What its last trial let through is no figure; a report has `<` there."""
    none = Bounds(lower_pps=None, upper_pps=2e4, stopped_by="min-load")
    [one] = [s for s in summarise(Bundle(bundle_path).results()) if s.key.execution == "rtc"][:1]
    unmet = one.model_copy(
        update={"results": tuple(r.model_copy(update={"bounds": none}) for r in one.results)}
    )
    assert unmet.unmet_pps == 2e4
    for pair in ((one, unmet), (unmet, one)):
        assert {c.significance for c in compare(*pair).changes} == {"not-trusted"}


def test_what_surrounds_the_results_is_compared(compared: Diff) -> None:
    named = {(d.where, d.name): (d.a, d.b) for d in compared.differences}
    assert named == {
        ("spec", "speed"): ("1", "0.9"),
        ("environment", "cpu.governor"): (None, "powersave"),
    }


def test_what_else_went_on_is_no_difference(bundle_path: Path, tmp_path: Path) -> None:
    """What differs is shown as a spec has it, not as Python does."""
    other = tmp_path / "other"
    shutil.copytree(bundle_path, other)
    file = other / "environment.json"
    environment = json.loads(file.read_text())
    environment["noise"] = {"load_average": [9, 9, 9]}
    environment["engine"] |= {"heap_bytes": 5, "pools": [{"name": "a", "mbufs": 7}]}
    file.write_text(json.dumps(environment))
    resolved = json.loads((other / "resolved.json").read_text())
    resolved["chaos"] = {"every": 1.0, "kinds": ["a", "b"]}
    (other / "resolved.json").write_text(json.dumps(resolved))
    others = {d.name: d.b for d in diff(Bundle(bundle_path), Bundle(other)).differences}
    assert others == {
        "engine.pools": "{name: a, mbufs: 7}", "chaos": "{every: 1.0, kinds: [a, b]}",
    }  # fmt: skip


def test_a_run_does_not_differ_from_itself(bundle_path: Path) -> None:
    same = diff(Bundle(bundle_path), Bundle(bundle_path / ".." / bundle_path.name))
    assert not same.changed and not same.differences
    assert not same.only_a and not same.only_b
    assert same.sentence == "a and b are the same bundle: nothing can differ."


def test_why_there_is_nothing_to_compare() -> None:
    def apart(a: dict[str, Any], b: dict[str, Any]) -> str:
        ours, theirs = (
            ResultKey(**{"chain": "c", "workload": "64B", "direction": "forward",
                         "execution": "rtc", "goal": "fixed", **given})
            for given in (a, b)
        )  # fmt: skip
        return Diff(
            a="a", b="b", compared=(), only_a=(ours,), only_b=(theirs,), differences=()
        ).sentence

    loads = apart({"load_pps": 1e6}, {"load_pps": 2e6})
    assert loads == (
        "Nothing to compare: goal is fixed 1.00\u202fMpps in a, and fixed 2.00\u202fMpps in b."
    )
    two = apart({"chain": "d", "goal": "ndr"}, {"goal": "ndr", "workload": "128B"})
    assert two == (
        "Nothing to compare: chain is d in a, and c in b; workload is 64B in a, and 128B in b."
    )


def test_one_repetition_shows_no_spread(bundle_path: Path, tmp_path: Path) -> None:
    once = make_bundle(tmp_path / "once", repetitions=1, speed=0.5)
    compared = diff(Bundle(bundle_path), Bundle(once))
    assert change(compared, "rtc", "throughput").significance == "unknown"


@pytest.mark.parametrize(("repetitions", "told"), [(2, "unknown"), (3, "different")])
def test_two_repetitions_a_side_cannot_tell(
    tmp_path: Path, repetitions: int, told: Significance
) -> None:
    """However far apart: of four equal values two and two are apart in 2 of 6 arrangements."""
    fast = make_bundle(tmp_path / "fast", repetitions=repetitions)
    slow = make_bundle(tmp_path / "slow", repetitions=repetitions, speed=0.5, seed=2)
    compared = diff(Bundle(fast), Bundle(slow))
    one = change(compared, "rtc", "throughput")
    assert one.significance == told and compared.changed == (told == "different")
    assert one.better is (None if told == "unknown" else False)


def test_permutation_p_of_separate_groups() -> None:
    # 2 of the 70 ways to split eight values are as extreme as this one.
    assert permutation_p([1, 2, 3, 4], [11, 12, 13, 14]) == pytest.approx(2 / 70)
    assert permutation_p([1, 2, 3], [11, 12, 13]) is None


VALUES = st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=5)


@example([0.0, 0.0, 0.0, 1.1125369292536007e-308], [0.0, 0.0, 1.0, -1.0])  # sum to nothing
@settings(deadline=None)
@given(VALUES, VALUES)
def test_permutation_p_is_a_probability(a: list[float], b: list[float]) -> None:
    p = permutation_p(a, b)
    assert p is not None and 0 < p <= 1
    assert permutation_p(b, a) == pytest.approx(p)


def test_the_sentence_counts_what_is_beyond_the_spread(tmp_path: Path) -> None:
    """Rates of b are 1.1 times those of a; what the generator bounds is not compared."""
    a, b = (
        Bundle(make_bundle(tmp_path / name, speed=speed))
        for name, speed in (("a", 1.0), ("b", 1.1))
    )
    told = diff(a, b).sentence
    assert re.fullmatch(
        r"9 results of b against a's, by throughput: 6 faster \(at most \+1\d\.\d\u202f%\), "
        r"1 of too few repetitions to tell, 2 not compared, as a side is not trusted\.",
        told,
    ), told
    same = Bundle(make_bundle(tmp_path / "same"))
    assert "6 within the spread" in diff(a, same).sentence
    assert "6 slower (at most −" in diff(b, a).sentence
