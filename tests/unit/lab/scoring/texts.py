"""Random texts in five scripts: a reference, and an output that has something in common with it."""

from __future__ import annotations

from hypothesis import strategies as st

ALPHABETS = {
    "latin": "abcdeéñßİ 0123.,!?'\"-&",
    "cyrillic": "абвгдеёжзий .,!?«»",
    "chinese": "我你他的是在不了人们有这中大来上国, 。，！？ABc 12",
    "japanese": "これはペンです日本語の文章。、ーカタカナ ab",
    "thai": "กขคงจฉชซณดตถทนบปผพฟมยรลวสหอาิีุูเแโใไ่้ ",
}
"""The scripts by name; each has the spaces, the digits and the punctuation that come with it."""

LANGUAGES = {
    "latin": "es",
    "cyrillic": "ru",
    "chinese": "zh",
    "japanese": "ja",
    "thai": "th",
}


@st.composite
def pairs(draw: st.DrawFn, alphabet: str) -> tuple[str, str]:
    """An output and its reference, which is not empty."""
    pieces = draw(
        st.lists(st.text(alphabet, min_size=1, max_size=8), min_size=1, max_size=12).filter(
            lambda found: any(any(c.isalpha() for c in piece) for piece in found)
        )
    )
    changed = draw(st.permutations(pieces)) if draw(st.booleans()) else pieces
    kept = [piece for piece in changed if draw(st.integers(0, 4))]
    extra = draw(st.lists(st.text(alphabet, min_size=1, max_size=8), max_size=3))
    return " ".join([*kept, *extra]), " ".join(pieces)


@st.composite
def corpora(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """The name of a script, and some pairs in it."""
    script = draw(st.sampled_from(sorted(ALPHABETS)))
    return script, draw(st.lists(pairs(ALPHABETS[script]), min_size=1, max_size=8))
