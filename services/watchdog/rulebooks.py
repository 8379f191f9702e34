"""The rules that logs are searched for: the platform's catalogue, what admins add, and each job's own messages.

A rulebook holds all of them for one job, so that a chunk is searched once. Jobs that bring no messages share one;
others share with jobs that bring the same. One is made in a thread at the first chunk that needs it, and kept while it
is among the last `KEPT` that were used, so a user's messages are in no other job's way. Of terms that were seen before
the rulebook is found by the object itself: to compare or hash many messages would take as long as the search.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from services.watchdog.domain import torchrun
from services.watchdog.domain.rootcause import Catalogue
from services.watchdog.domain.rulebook import Rulebook
from services.watchdog.domain.rules import LineRule, Rule
from services.watchdog.domain.terms import Terms

KEPT: Final = 256
READY_MAX: Final = 4096

_Key = tuple[tuple[LineRule, ...], bool]


class Rulebooks:
    """Rulebooks by what a job asks for; `added` are rules of admins, which win over the built-in ones.

    Rules that are only tried (`shadow`) are searched for and are no part of the catalogue, so they decide nothing.
    """

    def __init__(self, built_in: Sequence[Rule], presets: Sequence[Rule]) -> None:
        self._built_in = tuple(built_in)
        self._presets = tuple(presets)
        self._added: tuple[Rule, ...] = ()
        self.shadow: Mapping[str, Rule] = {}
        self._books: OrderedDict[_Key, Rulebook] = OrderedDict()
        self._ready: dict[int, tuple[Terms, Rulebook]] = {}
        self.catalogue = Catalogue.of(self._built_in, self._presets)

    def replace_added(self, rules: Sequence[Rule], shadow: Sequence[Rule] = ()) -> None:
        """These are the admins' rules from now on, and those that are tried."""
        self._added = tuple(rules)
        self.shadow = {rule.id: rule for rule in shadow}
        self._books.clear()
        self._ready.clear()
        self.catalogue = Catalogue.of((*self._added, *self._built_in), self._presets)

    async def of(self, terms: Terms) -> Rulebook:
        """The rulebook for a job with these terms."""
        ready = self._ready.get(id(terms))
        if ready is not None:
            return ready[1]
        book = await self._book((terms.messages, terms.uses_presets))
        if len(self._ready) >= READY_MAX:
            self._ready.clear()
        # Terms that are kept here keep their id.
        self._ready[id(terms)] = terms, book
        return book

    async def _book(self, key: _Key) -> Rulebook:
        book = self._books.get(key)
        while book is None:
            rules = self._rules(key)
            made = await asyncio.to_thread(Rulebook, rules)
            # The rules may have changed while it was made.
            book = made if rules == self._rules(key) else None
        self._books[key] = book
        self._books.move_to_end(key)
        while len(self._books) > KEPT:
            self._books.popitem(last=False)
            self._ready.clear()
        return book

    def _rules(self, key: _Key) -> tuple[LineRule, ...]:
        """The user's own messages first: of rules that hold on one line the first is told."""
        messages, uses_presets = key
        catalogue = (*(self._presets if uses_presets else ()), *self._added, *self._built_in)
        return (*messages, *(rule.line_rule for rule in (*catalogue, *self.shadow.values())), torchrun.HEADER)
