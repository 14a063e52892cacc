"""For those who build on Dragoman: nodes that do the work, and sessions that ask for it.

from dragoman.sdk import Answer, Job, Node

async def translate(job: Job) -> Answer:
    return Answer(text_translated=job.text.upper())

Node("ws://127.0.0.1:8080", nmt=["en", "es"], work=translate, slots=2).run()

from dragoman.sdk import talk

with talk("ws://127.0.0.1:8080", src_lang="en", tgt_lang="es") as session:
    session.say("good morning")
    print(session.next_result())
"""

from dragoman.sdk.connecting import (
    MemoryConnect,
    MemorySessionConnect,
    NodeConnect,
    NodeLink,
    SessionConnect,
    SessionLink,
    WebSocketConnect,
    WebSocketSessionConnect,
    node_url,
    session_url,
)
from dragoman.sdk.node.events import (
    Accepted,
    Commanded,
    Disconnected,
    Ended,
    Event,
    FunctionFailed,
    HealthChanged,
    Refused,
    Registered,
    ResultNotSent,
)
from dragoman.sdk.node.job import Answer, Job, JobFailed, ModelMissing, WrongAnswer
from dragoman.sdk.node.machine import MachineUsage, this_machine
from dragoman.sdk.node.node import Node
from dragoman.sdk.node.work import WorkFunction
from dragoman.sdk.session.client import SessionClient
from dragoman.sdk.session.events import SessionEvent, SessionInterrupted, SessionOpened
from dragoman.sdk.session.options import SessionOptions
from dragoman.sdk.session.results import Missing, Result
from dragoman.sdk.session.sync import SyncSession, talk
from dragoman.sdk.transport import LinkClosed, MemoryLink, Unreachable

__all__ = [
    "Accepted",
    "Answer",
    "Commanded",
    "Disconnected",
    "Ended",
    "Event",
    "FunctionFailed",
    "HealthChanged",
    "Job",
    "JobFailed",
    "LinkClosed",
    "MachineUsage",
    "MemoryConnect",
    "MemoryLink",
    "MemorySessionConnect",
    "Missing",
    "ModelMissing",
    "Node",
    "NodeConnect",
    "NodeLink",
    "Refused",
    "Registered",
    "Result",
    "ResultNotSent",
    "SessionClient",
    "SessionConnect",
    "SessionEvent",
    "SessionInterrupted",
    "SessionLink",
    "SessionOpened",
    "SessionOptions",
    "SyncSession",
    "Unreachable",
    "WebSocketConnect",
    "WebSocketSessionConnect",
    "WorkFunction",
    "WrongAnswer",
    "node_url",
    "session_url",
    "talk",
    "this_machine",
]
