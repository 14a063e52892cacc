"""A small client of OpenAI-compatible servers: chat, completions, audio in, audio out."""

from dragoman.openai_client.client import Audio, Client, Reply, Speech
from dragoman.openai_client.keys import KEY_IN_SETTINGS, check_key, find_key
from dragoman.openai_client.settings import Price, ServerSettings

__all__ = [
    "KEY_IN_SETTINGS",
    "Audio",
    "Client",
    "Price",
    "Reply",
    "ServerSettings",
    "Speech",
    "check_key",
    "find_key",
]
