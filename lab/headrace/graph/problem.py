# SPDX-License-Identifier: Apache-2.0
"""A set of VNFs and rules, compiled into what counting and enumerating need.

VNFs that no rule tells apart form a class, so that counting works on how many of each class
there are and never on which. A unit is what takes one place in a graph: a VNF, or several
neighbours in parallel with a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from headrace.errors import BadInput
from headrace.graph.knowledge import Category, Knowledge, KnownVnf, load, normal_name
from headrace.graph.order_rules import Relation, Rule, parse_rules
from headrace.graph.parallel import may_join
from headrace.spec.appliance import Base

Content = tuple[int, ...]  # how many VNFs of each class
NO_LIMIT = 1 << 30
ITEMS_MAX = 64


@dataclass(frozen=True)
class Item:
    """One instance of a VNF, as it is named in a graph."""

    name: str
    kind: str
    vnf: KnownVnf


@dataclass(frozen=True)
class ItemClass:
    """Instances that no rule tells apart: different VNFs, or (interchangeable) one VNF's."""

    items: tuple[int, ...]  # numbers of Problem.items
    interchangeable: bool


@dataclass(frozen=True)
class Cap:
    """At most `limit` of the children may be of these units."""

    units: frozenset[int]
    limit: int


@dataclass(frozen=True)
class Unit:
    """What takes one place: `content` VNFs of each class (all in parallel when several)."""

    content: Content
    children: tuple[int, ...]  # units allowed directly below
    caps: tuple[Cap, ...]
    never_below: frozenset[int]  # classes that must not be anywhere below
    reach: frozenset[int]  # classes that may be in a tree with this root
    needs: int  # bits that ancestors must have given
    gives: int
    may_be_root: bool
    may_be_child: bool
    needs_children: bool
    hops_max: int


@dataclass(frozen=True)
class GraphProblem:
    """All that decides which graphs there are."""

    items: tuple[Item, ...]
    classes: tuple[ItemClass, ...]
    units: tuple[Unit, ...]
    tracks_hops: bool

    @property
    def content(self) -> Content:
        return tuple(len(c.items) for c in self.classes)

    def free_leaves(self) -> dict[int, tuple[int, ...]]:
        """Classes whose VNFs each choose a parent independently of all else: class -> parents.

        Such are a knowledge base's leaves. The graphs are then those of the other VNFs, times
        every choice of parents; neither counting nor enumerating need look at them again.
        """
        if any(c.interchangeable for c in self.classes) or self._has_groups():
            return {}
        if any(unit.needs_children for unit in self.units):
            return {}
        parents_of = {}
        for number, unit in enumerate(self.units):
            parents = self._free_parents(number, unit)
            if parents is not None:
                parents_of[unit.content.index(1)] = parents
        return parents_of if len(parents_of) < len(self.classes) else {}

    def _has_groups(self) -> bool:
        return any(sum(unit.content) > 1 for unit in self.units)

    def _free_parents(self, number: int, leaf: Unit) -> tuple[int, ...] | None:
        """Items that may be its parent, whatever the rest of the graph; None if it depends."""
        own = leaf.content.index(1)
        everyone = frozenset(range(len(self.units)))
        ends = any(cap.units == everyone and cap.limit == 0 for cap in leaf.caps)
        if not ends or leaf.needs or leaf.hops_max < NO_LIMIT or not leaf.may_be_child:
            return None
        parents: list[int] = []
        for unit in self.units:
            if own in unit.never_below:
                return None
            limits = [cap.limit for cap in unit.caps if number in cap.units]
            if any(limits):
                return None
            if number in unit.children and not limits:
                parents += self.classes[unit.content.index(1)].items
        return tuple(sorted(parents))


@dataclass(frozen=True)
class WantedVnf:
    """Interchangeable instances of one VNF, as `l4-lb:3` asks for three."""

    kind: str
    vnf: KnownVnf
    count: int


def resolve(names: Sequence[str], knowledge: Knowledge) -> tuple[tuple[WantedVnf, ...], list[str]]:
    """The VNFs that `names` mean, and a note for each that nobody described.

    A name near a known one is taken for a typing error.
    """
    counts: dict[str, int] = {}
    vnfs: dict[str, KnownVnf] = {}
    notes: list[str] = []
    for given in names:
        name, count = _split_count(given)
        kind = knowledge.find(name)
        if kind is None:
            kind = normal_name(name)
            note = _unknown(name, knowledge)
            notes += [note] if note not in notes else []
        vnfs[kind] = knowledge.vnfs.get(kind) or KnownVnf(category=Category.UNCLASSIFIED)
        counts[kind] = counts.get(kind, 0) + count
    total = sum(counts.values())
    if not 1 <= total <= ITEMS_MAX:
        raise BadInput(f"VNFs: got {total}; allowed: 1 to {ITEMS_MAX}")
    return tuple(WantedVnf(kind, vnfs[kind], count) for kind, count in counts.items()), notes


def _unknown(name: str, knowledge: Knowledge) -> str:
    """What is said of a VNF that no rule applies to."""
    text = f"VNF {name!r}: not in the knowledge base; no rule applies to it"
    if load(base=Base.HEADRACE).find(name) is not None:
        return f"{text}; the one that knows it: {Base.HEADRACE} (--base)"
    similar = knowledge.similar(name)
    if similar:
        raise BadInput(f"VNF {name!r}: not known; did you mean {similar!r}? {_HOW_TO_ADD}")
    return text


_HOW_TO_ADD = "A new VNF is described in a file given with --rules"


def _split_count(given: str) -> tuple[str, int]:
    name, colon, count = given.partition(":")
    if not normal_name(name) or not normal_name(name).replace("-", "").isalnum():
        raise BadInput(f"VNF {given!r}: allowed: letters, digits and '-', then ':COUNT' if several")
    if not colon:
        return name, 1
    if not (count.isascii() and count.isdigit() and int(count[:4]) >= 1 and len(count) <= 3):
        raise BadInput(f"VNF {given!r}: count {count!r}; allowed: 1 to {ITEMS_MAX}")
    return name, int(count)


def compile_problem(
    wanted: Sequence[WantedVnf], knowledge: Knowledge, *, width: int = 1
) -> GraphProblem:
    """Makes the problem that is counted and enumerated. `width`: how many neighbours may run in
    parallel (1: none do)."""
    rules = _applicable(parse_rules(knowledge), wanted)
    groups = _group(wanted, rules, parallel=width > 1)
    items: list[Item] = []
    classes: list[ItemClass] = []
    for group in groups:
        first = len(items)
        for want in group:
            names = (
                [want.kind]
                if want.count == 1
                else [f"{want.kind}-{i + 1}" for i in range(want.count)]
            )
            items += [Item(name, want.kind, want.vnf) for name in names]
        classes.append(ItemClass(tuple(range(first, len(items))), group[0].count > 1))
    _check_names(items)
    examples = [group[0] for group in groups]
    contents = list(_unit_contents(classes, examples, width, rules))
    units = _Units(rules, examples, contents).build()
    tracks = any(rule.relation is Relation.WITHIN for rule in rules)
    return GraphProblem(tuple(items), tuple(classes), units, tracks)


def _check_names(items: Iterable[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise BadInput(f"VNF {item.name!r}: names two of the VNFs; rename one")
        seen.add(item.name)


def _applicable(rules: Iterable[Rule], wanted: Sequence[WantedVnf]) -> list[Rule]:
    """A rule that asks for something above says nothing where the set has no such VNF."""
    asks = (Relation.BELOW, Relation.DIRECTLY_BELOW)
    return [
        rule
        for rule in rules
        if rule.relation not in asks or any(rule.other(w.kind, w.vnf) for w in wanted)
    ]


def _group(
    wanted: Sequence[WantedVnf], rules: list[Rule], *, parallel: bool
) -> list[list[WantedVnf]]:
    """Groups VNFs in classes, leaves last, so that the first VNF of a forest decides as much as it
    can."""
    groups: dict[object, list[WantedVnf]] = {}
    for want in wanted:
        signature: tuple[object, ...] = tuple(
            (rule.subject(want.kind, want.vnf), rule.other(want.kind, want.vnf)) for rule in rules
        )
        if parallel:
            vnf = want.vnf
            leaf = vnf.category is Category.LEAF
            signature += (vnf.reads, vnf.writes, vnf.changes_volume, leaf)
        if want.count > 1:
            signature += (want.kind,)
        groups.setdefault(signature, []).append(want)
    return sorted(groups.values(), key=lambda g: (g[0].count > 1, g[0].vnf.category == "leaf"))


def _unit_contents(
    classes: Sequence[ItemClass], examples: Sequence[WantedVnf], width: int, rules: Sequence[Rule]
) -> Iterable[Content]:
    def joined(a: WantedVnf, b: WantedVnf) -> bool:
        return any(may_join(f.vnf, s.vnf) and _in_order(f, s, rules) for f, s in ((a, b), (b, a)))

    for size in range(1, width + 1):
        for members in combinations_with_replacement(range(len(classes)), size):
            content = tuple(members.count(c) for c in range(len(classes)))
            if all(_fits(n, classes[c]) for c, n in enumerate(content)) and all(
                joined(examples[a], examples[b])
                for i, a in enumerate(members)
                for b in members[i + 1 :]
            ):
                yield content


def _in_order(first: WantedVnf, second: WantedVnf, rules: Sequence[Rule]) -> bool:
    """Whether no rule forbids `second` behind `first`: side by side they do what they would so."""
    return not any(
        rule.relation is Relation.NEVER_BELOW
        and rule.subject(second.kind, second.vnf)
        and rule.other(first.kind, first.vnf)
        for rule in rules
    )


def _fits(number: int, of: ItemClass) -> bool:
    """Two instances of one VNF in parallel are scale-out, not a chain graph."""
    return number <= (1 if of.interchangeable else len(of.items))


class _Units:
    """Turns the rules into what each unit allows."""

    def __init__(
        self, rules: list[Rule], examples: Sequence[WantedVnf], contents: list[Content]
    ) -> None:
        self.rules = rules
        self.contents = contents
        self.subject = [[r.subject(e.kind, e.vnf) for e in examples] for r in rules]
        self.other = [[r.other(e.kind, e.vnf) for e in examples] for r in rules]
        self.classes = range(len(examples))

    def _has(self, matches: list[bool], content: Content) -> bool:
        return any(matches[c] for c in self.classes if content[c])

    def _of(self, content: Content, *relations: Relation) -> list[int]:
        """Rules of these relations whose subject is in the unit."""
        return [
            i
            for i, rule in enumerate(self.rules)
            if rule.relation in relations and self._has(self.subject[i], content)
        ]

    def build(self) -> tuple[Unit, ...]:
        children = [
            tuple(c for c in range(len(self.contents)) if self._may_be_child_of(c, p))
            for p in range(len(self.contents))
        ]
        never_below = [self._never_below(content) for content in self.contents]
        reach = self._reach(children, never_below)
        return tuple(
            self._unit(u, children[u], never_below[u], reach[u]) for u in range(len(self.contents))
        )

    def _unit(
        self, u: int, children: tuple[int, ...], never_below: frozenset[int], reach: frozenset[int]
    ) -> Unit:
        content = self.contents[u]
        within = [self.rules[i].number for i in self._of(content, Relation.WITHIN)]
        needs = sum(1 << i for i in self._of(content, Relation.BELOW))
        gives = sum(
            1 << i
            for i, rule in enumerate(self.rules)
            if rule.relation is Relation.BELOW and self._has(self.other[i], content)
        )
        return Unit(
            content=content,
            children=children,
            caps=self._caps(content),
            never_below=never_below,
            reach=reach,
            needs=needs,
            gives=gives,
            may_be_root=not needs
            and not self._of(content, Relation.NEVER_FIRST, Relation.DIRECTLY_BELOW),
            may_be_child=not self._of(content, Relation.FIRST),
            needs_children=bool(self._of(content, Relation.NEVER_LAST)),
            hops_max=min(within, default=NO_LIMIT),
        )

    def _caps(self, content: Content) -> tuple[Cap, ...]:
        """The tightest limit for each set of children; one that cannot bind is left out."""
        limits: dict[frozenset[int], int] = {}
        for i in self._of(content, Relation.CHILDREN_AT_MOST, Relation.LAST):
            units = frozenset(
                u for u, child in enumerate(self.contents) if self._has(self.other[i], child)
            )
            limits[units] = min(self.rules[i].number, limits.get(units, NO_LIMIT))
        return tuple(Cap(units, limit) for units, limit in limits.items() if units)

    def _may_be_child_of(self, c: int, p: int) -> bool:
        child, parent = self.contents[c], self.contents[p]
        for i in self._of(child, Relation.DIRECTLY_BELOW):
            if not self._has(self.other[i], parent):
                return False
        return not any(
            self._has(self.other[i], parent) for i in self._of(child, Relation.NEVER_DIRECTLY_BELOW)
        ) and not self._of(child, Relation.FIRST)

    def _never_below(self, content: Content) -> frozenset[int]:
        return frozenset(
            c
            for i, rule in enumerate(self.rules)
            if rule.relation is Relation.NEVER_BELOW and self._has(self.other[i], content)
            for c in self.classes
            if self.subject[i][c]
        )

    def _reach(
        self, children: list[tuple[int, ...]], never_below: list[frozenset[int]]
    ) -> list[frozenset[int]]:
        """Classes that may be in a tree under each unit: a fixed point from below."""
        own = [frozenset(c for c in self.classes if content[c]) for content in self.contents]
        reach = list(own)
        changed = True
        while changed:
            changed = False
            for u, below in enumerate(children):
                seen = frozenset().union(*(reach[c] for c in below)) - never_below[u]
                if not seen <= reach[u]:
                    reach[u] |= seen
                    changed = True
        return reach
