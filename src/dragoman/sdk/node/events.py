"""The events of a node, for its `on_event`."""

from __future__ import annotations

import msgspec

from dragoman.ids import AttemptId, InstanceId, JobId, NodeId
from dragoman.live.protocol import Command, NodeHealth


class Event(msgspec.Struct, frozen=True):
    """Something happened to the node; the base of all events below."""


class Registered(Event, frozen=True):
    """The scheduler knows the node."""

    node_id: NodeId
    instance_id: InstanceId
    cell: int
    pools: int
    """How many language pairs the node serves."""
    status: NodeHealth


class Disconnected(Event, frozen=True):
    """There is no connection, or not yet; the node tries again by itself."""

    code: int
    reason: str
    retry_seconds: float
    was_registered: bool


class HealthChanged(Event, frozen=True):
    """The scheduler sees the node in another state."""

    status: NodeHealth
    reason: str | None


class Commanded(Event, frozen=True):
    """The scheduler, or its operator, told the node to do something."""

    command: Command
    reason: str | None


class Accepted(Event, frozen=True):
    """The node took a job."""

    job_id: JobId
    attempt_id: AttemptId


class Refused(Event, frozen=True):
    """The node did not take a job."""

    job_id: JobId
    attempt_id: AttemptId
    code: str


class FunctionFailed(Event, frozen=True):
    """The function for a job raised an error, or returned something other than an Answer."""

    job_id: JobId
    attempt_id: AttemptId
    error: BaseException


class ResultNotSent(Event, frozen=True):
    """A result could not be sent as it is; the scheduler was told the reason instead."""

    job_id: JobId
    attempt_id: AttemptId
    code: str
    reason: str


class Ended(Event, frozen=True):
    """The function for a job has ended; its result is sent as soon as there is a connection."""

    job_id: JobId
    attempt_id: AttemptId
    code: str | None
    """The error's code; None when it went well."""
