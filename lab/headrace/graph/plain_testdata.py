# SPDX-License-Identifier: Apache-2.0
"""A plain model of chain graphs: every parent function there is, judged rule by rule.

Slow and obvious on purpose. It shares only the rule parser with what it checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from headrace.graph.knowledge import Knowledge
from headrace.graph.order_rules import Relation, Rule, parse_rules
from headrace.graph.problem import WantedVnf

Parents = tuple[int | None, ...]


class Model:
    def __init__(self, wanted: Sequence[WantedVnf], knowledge: Knowledge) -> None:
        self.kinds = [w for w in wanted for _ in range(w.count)]
        self.names = [
            w.kind if w.count == 1 else f"{w.kind}-{i + 1}" for w in wanted for i in range(w.count)
        ]
        self.rules = parse_rules(knowledge)

    def graphs(self) -> set[str]:
        """A canonical text for each graph: two that differ only in instances are one."""
        return {self.canonical(p) for p in self.trees() if all(map(self.judge(p), self.rules))}

    def trees(self) -> Iterator[Parents]:
        n = len(self.kinds)
        for parents in product(*([None, *(p for p in range(n) if p != c)] for c in range(n))):
            if parents.count(None) == 1 and all(self._rooted(parents, c) for c in range(n)):
                yield parents

    def _rooted(self, parents: Parents, c: int) -> bool:
        at: int | None = c
        for _ in parents:
            at = parents[at] if at is not None else None
        return at is None

    def canonical(self, parents: Parents) -> str:
        def text(c: int) -> str:
            below = sorted(text(k) for k in range(len(parents)) if parents[k] == c)
            return f"{self.kinds[c].kind}({','.join(below)})"

        return text(parents.index(None))

    def canonical_named(self, graph: dict[str, str | None]) -> str:
        place = {name: i for i, name in enumerate(self.names)}
        return self.canonical(
            tuple(None if graph[n] is None else place[str(graph[n])] for n in self.names)
        )

    def judge(self, parents: Parents):  # type: ignore[no-untyped-def]
        return lambda rule: _Judge(self, parents, rule).holds()


class _Judge:
    def __init__(self, model: Model, parents: Parents, rule: Rule) -> None:
        self.parents = parents
        self.rule = rule
        n = range(len(parents))
        self.s = [c for c in n if rule.subject(model.kinds[c].kind, model.kinds[c].vnf)]
        self.t = {c for c in n if rule.other(model.kinds[c].kind, model.kinds[c].vnf)}

    def above(self, c: int) -> list[int]:
        ancestors = []
        at = self.parents[c]
        while at is not None:
            ancestors.append(at)
            at = self.parents[at]
        return ancestors

    def children(self, c: int) -> list[int]:
        return [k for k, p in enumerate(self.parents) if p == c]

    def holds(self) -> bool:
        return all(self._holds_for(c) for c in self.s)

    def _holds_for(self, c: int) -> bool:
        parent, above, children = self.parents[c], self.above(c), self.children(c)
        match self.rule.relation:
            case Relation.NEVER_BELOW:
                return not self.t & set(above)
            case Relation.BELOW:
                return not self.t or bool(self.t & set(above))
            case Relation.DIRECTLY_BELOW:
                return not self.t or parent in self.t
            case Relation.NEVER_DIRECTLY_BELOW:
                return parent not in self.t
            case Relation.CHILDREN_AT_MOST:
                return len(self.t & set(children)) <= self.rule.number
            case Relation.FIRST:
                return parent is None
            case Relation.NEVER_FIRST:
                return parent is not None
            case Relation.LAST:
                return not children
            case Relation.NEVER_LAST:
                return bool(children)
            case Relation.WITHIN:
                return len(above) <= self.rule.number
