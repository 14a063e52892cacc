"""A small client of OpenAI-compatible servers: chat, completions, audio in, audio out."""

from dragoman.openai_client.client import Audio, Client, ModelSpeech, Reply
from dragoman.openai_client.keys import KEY_IN_SETTINGS, check_key, find_key
from dragoman.openai_client.settings import ModelServerSettings, Price

__all__ = [
    "KEY_IN_SETTINGS",
    "Audio",
    "Client",
    "ModelServerSettings",
    "ModelSpeech",
    "Price",
    "Reply",
    "check_key",
    "find_key",
]
