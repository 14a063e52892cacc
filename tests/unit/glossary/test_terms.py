"""Which of a tenant's terms a job is told of."""

from __future__ import annotations

import pytest

from dragoman.errors import InvalidMessage
from dragoman.glossary import Entry, GlossaryRules, TenantGlossary, check_entry
from dragoman.live.protocol import GlossaryTerm

EN_ES = (("en", "es"),)


def told(
    *entries: Entry,
    pairs: tuple[tuple[str, str], ...] = EN_ES,
    text: str | None = None,
    most: int = 100,
    most_bytes: int = 10_000,
) -> list[tuple[str, str | None]]:
    words = TenantGlossary(entries, GlossaryRules(most, most_bytes, 1.0))
    first, again = words.terms(pairs, text), words.terms(pairs, text)
    assert first == again
    return [(one.term, one.translation) for one in first]


def test_a_job_is_told_the_terms_of_its_languages() -> None:
    entries = (
        Entry("en", "Dragoman"),
        Entry("en", "gate", "es", "puerta de embarque"),
        Entry("en", "gate", "fr", "porte"),
        Entry("es", "billete", "en", "ticket"),
    )
    assert told(*entries) == [("Dragoman", None), ("gate", "puerta de embarque")]
    assert told(*entries, pairs=(("en", "fr"),)) == [("Dragoman", None), ("gate", "porte")]
    both_ways = (("en", "es"), ("es", "en"))
    assert ("billete", "ticket") in told(*entries, pairs=both_ways)
    assert told(*entries, pairs=(("de", "en"),)) == []


def test_a_language_covers_its_regions_and_not_the_other_way() -> None:
    entries = (Entry("EN", "lift"), Entry("en-GB", "boot"))
    assert told(*entries, pairs=(("en-gb", "es"),)) == [("lift", None), ("boot", None)]
    assert told(*entries) == [("lift", None)]
    assert told(*entries, pairs=(("eng", "es"),)) == []


def test_a_term_comes_once_with_its_translation() -> None:
    entries = (Entry("en", "gate"), Entry("en", "gate", "es", "puerta"))
    assert told(*entries) == [("gate", "puerta")]


def test_of_more_than_a_job_may_carry_a_text_takes_those_that_are_in_it() -> None:
    entries = [Entry("en", f"term{number}", "es", f"t{number}") for number in range(50)]
    assert len(told(*entries, most=10)) == 10, "speech takes those that were set last"
    text = "say term40 and term41, not term4"
    found = told(*entries, most=10, text=text)
    assert [term for term, _ in found] == ["term4", "term40", "term41"]
    assert len(told(*entries, text=text)) == 50, "all, while they fit"
    assert told(*entries, most=0) == []
    assert len(told(*entries, most_bytes=40)) < 10


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (Entry("en", "  "), "items[3].term"),
        (Entry("en", "x" * 191), "items[3].term"),
        (Entry("en", "two\nlines"), "items[3].term"),
        (Entry("en", "gate", "es", " "), "items[3].translation"),
        (Entry("en", "gate", "es", "x" * 501), "items[3].translation"),
        (Entry("en", "gate", None, "puerta"), "items[3].tgt_lang"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_with_its_place(entry: Entry, field: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        check_entry(entry, "items[3]")
    assert refused.value.details["field"] == field


def test_terms_are_kept_in_one_form() -> None:
    entry = check_entry(Entry("en", " cafe\u0301 "), "items[0]")
    assert entry.term == "caf\u00e9"
    assert GlossaryTerm("a") == GlossaryTerm("a", None)
