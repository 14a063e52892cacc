"""For those who build on Dragoman: the node SDK.

from dragoman.sdk import Answer, Job, Node

async def translate(job: Job) -> Answer:
    return Answer(text_translated=job.text.upper())

Node("ws://127.0.0.1:8080", nmt=["en", "es"], work=translate, slots=2).run()
"""

from dragoman.sdk.node.events import (
    Accepted,
    Commanded,
    Disconnected,
    Ended,
    Event,
    HealthChanged,
    Refused,
    Registered,
)
from dragoman.sdk.node.job import Answer, Job, JobFailed, ModelMissing
from dragoman.sdk.node.link import Connect, Link, LinkClosed, Unreachable
from dragoman.sdk.node.machine import MachineUsage, this_machine
from dragoman.sdk.node.memory import MemoryConnect, MemoryLink
from dragoman.sdk.node.node import Node
from dragoman.sdk.node.websocket import WebSocketConnect, node_url
from dragoman.sdk.node.work import WorkFunction

__all__ = [
    "Accepted",
    "Answer",
    "Commanded",
    "Connect",
    "Disconnected",
    "Ended",
    "Event",
    "HealthChanged",
    "Job",
    "JobFailed",
    "Link",
    "LinkClosed",
    "MachineUsage",
    "MemoryConnect",
    "MemoryLink",
    "ModelMissing",
    "Node",
    "Refused",
    "Registered",
    "Unreachable",
    "WebSocketConnect",
    "WorkFunction",
    "node_url",
    "this_machine",
]
