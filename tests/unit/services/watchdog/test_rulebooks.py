"""Which jobs share a rulebook, and that changed rules are in the next one that is asked for."""

from __future__ import annotations

import pytest

from services.watchdog import rulebooks as module
from services.watchdog.catalogue import built_in_rules
from services.watchdog.domain.rules import LineRule
from services.watchdog.domain.terms import NO_RETRY, Terms
from services.watchdog.rulebooks import Rulebooks

ADDED, *BUILT_IN = built_in_rules()[:3]


def terms(*messages: str) -> Terms:
    rules = tuple(LineRule.of_texts(f"message/{number}", text) for number, text in enumerate(messages, start=1))
    return Terms(NO_RETRY, None, messages=rules)


async def test_jobs_with_the_same_messages_share_a_rulebook() -> None:
    books = Rulebooks(BUILT_IN, ())
    first, again, other = terms("gave up"), terms("gave up"), terms("went away")
    assert await books.of(first) is await books.of(again) is await books.of(first)
    assert await books.of(other) is not await books.of(first)


async def test_rules_that_an_admin_has_added_are_in_the_next_rulebook_of_terms_that_are_known() -> None:
    books, known = Rulebooks(BUILT_IN, ()), terms("gave up")
    assert ADDED.id not in (await books.of(known)).order
    books.replace_added([ADDED])
    assert ADDED.id in (await books.of(known)).order


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    monkeypatch.setattr(module, "READY_MAX", 2)
    books, first = Rulebooks(BUILT_IN, ()), terms("first")
    made = await books.of(first)
    for text in ("second", "third", "fourth"):
        assert "message/1" in (await books.of(terms(text))).order
    assert len(books._books) == 2
    assert len(books._ready) <= 2
    assert await books.of(first) is not made
