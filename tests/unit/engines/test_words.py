"""The glossary and the context of a job, as engines use them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.engines.words import KeptTerms, heard_before
from dragoman.live.protocol import GlossaryTerm, Mode, PastUtterance
from dragoman.sdk import Job

TERMS = (GlossaryTerm("gate", "puerta"), GlossaryTerm("fare", "tarifa"))


def job(text: str = "", **fields: object) -> Job:
    return Job(src_lang="en", tgt_lang="es", text=text, **fields)  # type: ignore[arg-type]


def test_a_text_that_holds_a_place_holder_itself_keeps_it() -> None:
    kept = KeptTerms(job("gate Xqz0x fare XQZ1X", glossary=TERMS))
    assert "gate" not in kept.text
    assert "fare" not in kept.text
    assert kept.put_back(kept.text) == "puerta Xqz0x tarifa XQZ1X"


words = st.sampled_from(["gate", "fare", "Xqz0x", "xqz1x", "Xqz2x", "Xqz10x", "the", "and"])


@given(st.lists(words, max_size=12))
def test_what_is_taken_out_is_put_back_and_all_else_stays(said: list[str]) -> None:
    kept = KeptTerms(job(" ".join(said), glossary=TERMS))
    forced = {"gate": "puerta", "fare": "tarifa"}
    assert kept.put_back(kept.text) == " ".join(forced.get(word, word) for word in said)


def test_what_was_said_before_is_told_in_the_language_that_is_heard() -> None:
    context = (
        PastUtterance("good morning", "buenos días", "en", "es"),
        PastUtterance("hola", "hello", "es", "en"),
        PastUtterance("where is the gate", "où est la porte", "en-GB", "fr"),
    )
    assert heard_before(job(context=context)) == "good morning where is the gate"
    assert not heard_before(job())
    assert not heard_before(Job(src_lang="auto", tgt_lang="es", context=context))
    assert not heard_before(job(context=context, mode=Mode.TWO_WAY_AUTO))


def test_of_a_long_talk_the_latest_words_are_told() -> None:
    context = tuple(PastUtterance(f"sentence {n}", "", "en", "es") for n in range(100))
    told = heard_before(job(context=context))
    assert len(told) <= 500
    assert told.endswith("sentence 98 sentence 99")
