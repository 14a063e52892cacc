"""A session: one speaks, and hears the translations, through lost connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self, Unpack

from dragoman.clock import SystemClock
from dragoman.errors import DragomanError, InvalidSession, RateLimited, SessionClosed
from dragoman.ids import RequestId, SessionId
from dragoman.live.protocol import (
    FROM_CLIENT,
    AudioFormat,
    Mode,
    Pipeline,
    SessionInitAck,
    SubProtocol,
    Utterance,
    check_utterance,
    encode,
)
from dragoman.sdk.node.backoff import Backoff
from dragoman.sdk.node.link import Unreachable
from dragoman.sdk.session.chunks import pieces
from dragoman.sdk.session.conversation import Conversation
from dragoman.sdk.session.ending import TOO_MUCH, Ending, final_error, wait_asked_for_seconds
from dragoman.sdk.session.events import SessionEvent, SessionInterrupted, SessionOpened
from dragoman.sdk.session.link import SessionConnect
from dragoman.sdk.session.options import SessionOptions, opening
from dragoman.sdk.session.pace import Pace
from dragoman.sdk.session.results import Result
from dragoman.sdk.session.talk import Talk
from dragoman.sdk.session.websocket import WebSocketSessionConnect

_CHUNK_MS = 100
_KEEP_BYTES = 8 * 1024 * 1024
_MAX_IN_FLIGHT = 16
_MOST_UNREAD = 1000
_RECONNECT_SECONDS = 120.0
_PCM16_BYTES_PER_SAMPLE = 2
