# SPDX-License-Identifier: Apache-2.0
"""Counting, streaming and sampling against the plain model, and the published counts.

Times are CPU time: what else the machine does is none of their business.
"""

from __future__ import annotations

import json
import time
from itertools import chain, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import BadInput
from headrace.graph import count
from headrace.graph.count import GraphCounter
from headrace.graph.draw import one_line
from headrace.graph.enumerate import Enumerator, parse, stream
from headrace.graph.knowledge import EMPTY, Category, Knowledge, KnownVnf, PlacedRule, load
from headrace.graph.plain_testdata import Model
from headrace.graph.problem import WantedVnf, compile_problem, resolve
from headrace.graph.unrank import Unranker, combination, multiset, sample
from headrace.spec.appliance import Base

FIVE = ["IDS", "NAT", "L4 LB", "L7 cache", "IP firewall"]  # NfvInsight's example


def counter(names: list[str], knowledge: Knowledge = EMPTY, width: int = 1) -> GraphCounter:
    wanted, _ = resolve(names, knowledge)
    return GraphCounter(compile_problem(wanted, knowledge, width=width))


@pytest.mark.parametrize("n", range(1, 8))
def test_without_rules_all_rooted_labelled_trees(n: int) -> None:
    """Cayley: n^(n-1)."""
    graphs = list(stream(counter(list("abcdefg"[:n]))))
    assert len(graphs) == len(set(graphs)) == n ** (n - 1) == counter(list("abcdefg"[:n])).total()


# Figure 3 of NfvInsight, by hand: the NAT first, the balancer last, cache and firewall in either
# order, and the IDS on any of the four.
FIGURE_3 = {
    "nat (ids) → l7-cache → ip-firewall → l4-lb",
    "nat → l7-cache (ids) → ip-firewall → l4-lb",
    "nat → l7-cache → ip-firewall (ids) → l4-lb",
    "nat → l7-cache → ip-firewall → l4-lb (ids)",
    "nat (ids) → ip-firewall → l7-cache → l4-lb",
    "nat → ip-firewall (ids) → l7-cache → l4-lb",
    "nat → ip-firewall → l7-cache (ids) → l4-lb",
    "nat → ip-firewall → l7-cache → l4-lb (ids)",
}


def listed(names: list[str], knowledge: Knowledge) -> set[str]:
    """Graphs as a person writes them down, leaves in parentheses."""
    counted = counter(names, knowledge)
    leaves = {item.name for item in counted.problem.items if item.vnf.category is Category.LEAF}
    texts = [one_line(parse(text), leaves) for text in stream(counted)]
    assert len(texts) == len(set(texts)) == counted.total()
    return set(texts)


def test_published_graphs() -> None:
    assert counter(["q", "r", "s", "t"], load()).total() == 64  # S4.graphs-4
    assert listed(FIVE, load()) == FIGURE_3  # S4.graphs-5


def test_each_category_has_its_place() -> None:
    """One of each of NfvInsight's table 1, and two of a kind in either order."""
    assert listed(["gateway", "monitor", "wan-optimiser", "l4-lb"], load()) == {
        "gateway (monitor) → wan-optimiser → l4-lb",
        "gateway → wan-optimiser (monitor) → l4-lb",
        "gateway → wan-optimiser → l4-lb (monitor)",
    }
    assert listed(["vpn", "nat"], load()) == {"vpn → nat", "nat → vpn"}
    assert listed(["ids", "monitor"], load()) == set()  # nothing comes out of either


def test_headraces_own_knowledge_only_adds() -> None:
    """Its graphs of NfvInsight's VNFs are some of that paper's: no leaf is fed what a cache left
    over."""
    own = load(base=Base.HEADRACE)
    assert {name: own.vnfs[name] for name in load().vnfs} == load().vnfs
    assert own.rules[: len(load().rules)] == load().rules
    assert listed(FIVE, own) == {graph for graph in FIGURE_3 if "l7-cache (ids)" not in graph}
    assert listed(["dns", "router"], own) == {"router → dns"}


def test_isomorphic_graphs_once() -> None:
    """Rooted trees without labels: OEIS A000081."""
    assert [counter([f"q:{n}"]).total() for n in range(1, 11)] == [
        1, 1, 2, 4, 9, 20, 48, 115, 286, 719,
    ]  # fmt: skip


WIDE = load(base=Base.HEADRACE)
KINDS = ["nat", "ids", "l4-lb", "dns", "vpn", "x"]
ATOMS = [*KINDS, *(c.value for c in Category), "any", "drops", "changes-volume", "writes payload"]
SELECTOR = st.one_of(
    st.sampled_from(ATOMS),
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(["and", "or"]), st.sampled_from(ATOMS)).map(
        lambda t: f"({t[0]} {t[1]} not {t[2]})"
    ),
)
RULE = st.one_of(
    st.tuples(
        SELECTOR,
        st.sampled_from(
            ["before", "never below", "below", "directly below", "never directly below"]
        ),
        SELECTOR,
    ).map(" ".join),
    st.tuples(SELECTOR, st.sampled_from(["first", "never first", "last", "never last"])).map(
        " ".join
    ),
    st.tuples(SELECTOR, st.integers(0, 3), SELECTOR).map(
        lambda t: f"{t[0]} has at most {t[1]} {t[2]} children"
    ),
    st.tuples(SELECTOR, st.integers(0, 3)).map(lambda t: f"{t[0]} within {t[1]} hops of the root"),
)
SETS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 3)),
    min_size=1,
    max_size=4,
    unique_by=lambda k: k[0],
).filter(lambda kinds: sum(n for _, n in kinds) <= 6)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(kinds=SETS, rules=st.lists(RULE, max_size=3))
def test_equals_the_model(kinds: list[tuple[str, int]], rules: list[str]) -> None:
    vnfs = {**WIDE.vnfs, "x": KnownVnf(category=Category.UNCLASSIFIED)}
    knowledge = Knowledge(vnfs=vnfs, rules=tuple(PlacedRule(place="t", text=r) for r in rules))
    wanted = [WantedVnf(kind, vnfs[kind], n) for kind, n in kinds]
    model = Model(wanted, knowledge)
    expected = model.graphs()
    counted = GraphCounter(compile_problem(wanted, knowledge))
    streamed = [model.canonical_named(parse(text)) for text in stream(counted)]
    assert counted.total() == len(streamed) == len(expected)
    assert set(streamed) == expected
    unranker = Unranker(counted)
    numbered = {model.canonical_named(unranker.graph(i)) for i in range(min(counted.total(), 300))}
    assert len(numbered) == min(len(expected), 300)
    assert numbered <= expected


def test_parallel_neighbours_with_a_join() -> None:
    """A firewall and an IPS write nothing: either order, or both at once."""
    graphs = {text.replace('"', "") for text in stream(counter(["ip-firewall", "ips"], WIDE, 2))}
    assert graphs == {
        "{ip-firewall:null,ips:ip-firewall}",
        "{ips:null,ip-firewall:ips}",
        "{ip-firewall|ips:null}",
    }
    # The switch reads what the forwarder writes: it goes first, the other on a copy.
    assert counter(["switch", "l2-forwarder"], WIDE, 2).total() == 3
    assert counter(["compression", "ip-firewall"], WIDE, 2).total() == 2  # packets change in size
    # Side by side they would do what firewall, then NAT does, which the rules forbid.
    assert counter(["nat", "ip-firewall"], WIDE, 2).total() == 1


def test_parallel_counts_what_it_streams() -> None:
    for names in (
        ["a", "b", "c", "d"],
        ["nat", "ip-firewall", "router", "l4-lb", "ids"],
        ["a:3", "b"],
    ):
        counted = counter(names, WIDE, 3)
        texts = [json.dumps(parse(t), sort_keys=True) for t in stream(counted)]
        unranker = Unranker(counted)
        assert counted.total() == len(texts) == len(set(texts))
        assert set(texts) == {
            json.dumps(unranker.graph(i), sort_keys=True) for i in range(counted.total())
        }


def test_twenty_vnfs_counted_within_a_second() -> None:
    knowledge = WIDE
    names = list(knowledge.vnfs)
    for some in (names[:20], names[-20:]):
        begin = time.process_time()
        assert counter(some, knowledge).total() > 10**11
        assert time.process_time() - begin < 1


@pytest.mark.long
def test_interchangeable_instances_counted_within_seconds() -> None:
    """The table over the last tree taken needed a minute and more for these."""
    begin = time.process_time()
    assert counter(["a:10", "b:10"]).total() == 844_886_856_922
    assert counter(["a:6", "b:6", "c:6"]).total() == 8_782_872_817_362
    assert counter(["a:30", "b:30"]).total() > 10**30
    assert counter(["a:10", "b:10", "c:10"]).total() > 10**20
    assert counter(["nat:6", "ids:6", "l4-lb:6"], WIDE).total() > 0
    assert time.process_time() - begin < 20


@pytest.mark.long
def test_beyond_bounds_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < count.STEPS_MAX <= 10**7
    monkeypatch.setattr(count, "STEPS_MAX", 300_000)
    many = counter([f"{name}:8" for name in "abcdefgh"])
    with pytest.raises(BadInput, match="too many are instances"):
        many.total()
    listed = counter(["a:30", "b:30"])
    with pytest.raises(BadInput, match="--count alone"):
        next(Enumerator(listed).batches())


def test_first_graph_at_once_and_fast_ones_after() -> None:
    knowledge = WIDE
    begin = time.process_time()
    batches = Enumerator(counter(list(knowledge.vnfs)[:20], knowledge)).batches()
    first = next(batches)
    assert time.process_time() - begin < 1
    assert parse(first[0])
    begin, number = time.process_time(), 0
    for batch in islice(batches, 100):
        number += len(batch)
    assert number / (time.process_time() - begin) > 200_000


@pytest.mark.long
def test_sample_is_uniform_and_without_repetition() -> None:
    counted = counter(["a", "b", "c", "q:2"])
    everything = {json.dumps(g, sort_keys=True) for g in sample(counted, 10**9, 1)}
    assert len(everything) == counted.total()
    seen = dict.fromkeys(everything, 0)
    draws, size = 200, 100
    for seed in range(draws):
        drawn = [json.dumps(g, sort_keys=True) for g in sample(counted, size, seed)]
        assert len(set(drawn)) == size
        for text in drawn:
            seen[text] += 1
    expected = draws * size / len(seen)
    chi_square = sum((n - expected) ** 2 / expected for n in seen.values())
    assert chi_square < len(seen) + 5 * (2 * len(seen)) ** 0.5


def test_sample_of_a_set_beyond_64_bits() -> None:
    counted = counter([f"v{i}" for i in range(30)])
    assert counted.total() == 30**29
    assert len(list(sample(counted, 50, 7))) == 50


def test_numbered_choices() -> None:
    assert sorted(map(tuple, (combination(r, 5, 3) for r in range(10)))) == sorted(
        {tuple(combination(r, 5, 3)) for r in range(10)}
    )
    choices = [multiset(r, 4, 2) for r in range(10)]
    assert sorted(choices) == [[a, b] for a in range(4) for b in range(a, 4)]


def test_no_graph_is_an_answer() -> None:
    knowledge = Knowledge(
        vnfs=WIDE.vnfs,
        rules=(PlacedRule(place="t", text="nat last"), PlacedRule(place="t", text="nat first")),
    )
    counted = counter(["nat", "dns"], knowledge)
    assert counted.total() == 0
    assert list(chain.from_iterable(Enumerator(counted).batches())) == []
