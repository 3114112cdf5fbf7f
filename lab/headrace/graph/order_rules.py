# SPDX-License-Identifier: Apache-2.0
"""The rule language: one sentence per rule, over pairs and positions (docs/chains.md).

    SELECTOR before SELECTOR                    on one path, the first comes first
    SELECTOR never below SELECTOR               the same
    SELECTOR below SELECTOR                     each has one of those above it
    SELECTOR [never] directly below SELECTOR    its parent is (is not) one of those
    SELECTOR has no [SELECTOR] children
    SELECTOR has at most N [SELECTOR] children
    SELECTOR [never] first                      is (is not) the root
    SELECTOR [never] last                       has no (some) children
    SELECTOR within N hops of the root

A selector is a VNF's name, a category, `any`, `reads FIELD`, `writes FIELD`, `drops`,
`changes-volume`, or those joined by `and`, `or`, `not` and parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from headrace.errors import BadInput
from headrace.graph.knowledge import Category, HeaderField, Knowledge, KnownVnf, PlacedRule

Selector = Callable[[str, KnownVnf], bool]


class Relation(Enum):
    NEVER_BELOW = "never below"
    BELOW = "below"
    DIRECTLY_BELOW = "directly below"
    NEVER_DIRECTLY_BELOW = "never directly below"
    CHILDREN_AT_MOST = "has at most"
    FIRST = "first"
    NEVER_FIRST = "never first"
    LAST = "last"
    NEVER_LAST = "never last"
    WITHIN = "within"


@dataclass(frozen=True)
class Rule:
    """`subject relation other`; `number` is a bound where the relation has one."""

    text: str
    why: str
    relation: Relation
    subject: Selector
    other: Selector
    number: int = 0


def _any(_name: str, _vnf: KnownVnf) -> bool:
    return True


_TOKEN = re.compile(r"[()]|[^\s()]+")
_VERBS = ("before", "below", "directly", "never", "has", "first", "last", "within")


class _Parser:
    """Recursive descent over the words of one rule."""

    def __init__(self, rule: PlacedRule, knowledge: Knowledge) -> None:
        self.rule = rule
        self.knowledge = knowledge
        self.words = _TOKEN.findall(rule.text)
        self.at = 0

    def fail(self, expected: str) -> BadInput:
        got = f"at {self.words[self.at]!r}" if self.at < len(self.words) else "at its end"
        return BadInput(f"{self.rule.place}: {self.rule.text!r}: {got}: expected {expected}")

    def peek(self) -> str:
        return self.words[self.at].lower() if self.at < len(self.words) else ""

    def take(self, *wanted: str) -> bool:
        """Take these words if they are the next ones."""
        upto = self.at + len(wanted)
        if tuple(word.lower() for word in self.words[self.at : upto]) != wanted:
            return False
        self.at = upto
        return True

    def need(self, *wanted: str) -> None:
        if not self.take(*wanted):
            raise self.fail(f"{' '.join(wanted)!r}")

    def number(self) -> int:
        word = self.peek()
        if not word.isascii() or not word.isdigit() or len(word) > 6:
            raise self.fail("a number")
        self.at += 1
        return int(word)

    # selectors -------------------------------------------------------------------------

    def selector(self) -> Selector:
        left = self._and()
        while self.take("or"):
            left = _either(left, self._and())
        return left

    def _and(self) -> Selector:
        left = self._not()
        while self.take("and"):
            left = _both(left, self._not())
        return left

    def _not(self) -> Selector:
        if self.take("not"):
            inner = self._not()
            return lambda name, vnf: not inner(name, vnf)
        if self.take("("):
            inner = self.selector()
            self.need(")")
            return inner
        return self._atom()

    def _atom(self) -> Selector:
        if self.take("any"):
            return _any
        if self.take("drops"):
            return lambda _name, vnf: vnf.drops
        if self.take("changes-volume"):
            return lambda _name, vnf: vnf.changes_volume
        if self.take("reads"):
            field = self._field()
            return lambda _name, vnf: field in vnf.reads
        if self.take("writes"):
            field = self._field()
            return lambda _name, vnf: field in vnf.writes
        return self._named()

    def _field(self) -> HeaderField:
        try:
            field = HeaderField(self.peek())
        except ValueError:
            raise self.fail("one of " + ", ".join(HeaderField)) from None
        self.at += 1
        return field

    def _named(self) -> Selector:
        word = self.peek()
        if not word or word in _VERBS or word == ")":
            raise self.fail("a VNF, a category, any, reads, writes, drops or changes-volume")
        known = self.knowledge.find(word)
        if known is not None:
            self.at += 1
            return lambda name, _vnf: name == known
        if word in tuple(Category):
            self.at += 1
            return lambda _name, vnf: vnf.category == word
        similar = self.knowledge.similar(word)
        hint = f" (did you mean {similar!r}?)" if similar else ""
        raise self.fail(f"a known VNF or one of {', '.join(Category)}{hint}")

    # rules -----------------------------------------------------------------------------

    def parse(self) -> Rule:
        subject = self.selector()
        relation, other, number = self._relation()
        if self.at < len(self.words):
            raise self.fail("the end of the rule")
        return Rule(self.rule.text, self.rule.why, relation, subject, other, number)

    def _relation(self) -> tuple[Relation, Selector, int]:
        for words, relation in _WITH_OTHER:
            if self.take(*words):
                return relation, self.selector(), 0
        for words, relation in _ALONE:
            if self.take(*words):
                return relation, _any, 0
        if self.take("has"):
            return self._children()
        if self.take("within"):
            hops = self.number()
            if not self.take("hop"):
                self.need("hops")
            self.need("of", "the", "root")
            return Relation.WITHIN, _any, hops
        raise self.fail("one of " + ", ".join(_VERBS))

    def _children(self) -> tuple[Relation, Selector, int]:
        number = 0
        if not self.take("no"):
            self.need("at", "most")
            number = self.number()
        other: Selector = _any if self.peek() in ("child", "children") else self.selector()
        if not self.take("child"):
            self.need("children")
        return Relation.CHILDREN_AT_MOST, other, number


_WITH_OTHER = (
    (("before",), Relation.NEVER_BELOW),
    (("never", "below"), Relation.NEVER_BELOW),
    (("never", "directly", "below"), Relation.NEVER_DIRECTLY_BELOW),
    (("directly", "below"), Relation.DIRECTLY_BELOW),
    (("below",), Relation.BELOW),
)
_ALONE = (
    (("first",), Relation.FIRST),
    (("never", "first"), Relation.NEVER_FIRST),
    (("last",), Relation.LAST),
    (("never", "last"), Relation.NEVER_LAST),
)


def _either(a: Selector, b: Selector) -> Selector:
    return lambda name, vnf: a(name, vnf) or b(name, vnf)


def _both(a: Selector, b: Selector) -> Selector:
    return lambda name, vnf: a(name, vnf) and b(name, vnf)


def parse_rules(knowledge: Knowledge) -> tuple[Rule, ...]:
    """All rules of a knowledge base; bad input names the rule and the word."""
    return tuple(_parse(rule, knowledge) for rule in knowledge.rules)


def _parse(rule: PlacedRule, knowledge: Knowledge) -> Rule:
    try:
        return _Parser(rule, knowledge).parse()
    except RecursionError:
        raise BadInput(f"{rule.place}: parentheses nested too deeply") from None
