"""The target of the experiment: a column of the dataset goes in, the translation comes out."""

WORDS = {"good": "buenos", "morning": "días", "hello": "hola", "friend": "amigo"}


def translate(english: str) -> str:
    """Translate word by word."""
    return " ".join(WORDS.get(word, word) for word in english.split())
