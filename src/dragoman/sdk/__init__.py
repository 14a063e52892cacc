"""The SDK: nodes that do the work, and sessions that ask for it.

from dragoman.sdk import Answer, Job, Node

async def translate(job: Job) -> Answer:
    return Answer(text_translated=job.text.upper())

Node("ws://127.0.0.1:8080", nmt=["en", "es"], work=translate, slots=2).run()

from dragoman.sdk import talk

with talk("ws://127.0.0.1:8080", src_lang="en", tgt_lang="es") as session:
    session.say("good morning")
    print(session.next_result())
"""

from dragoman.clock import Clock
from dragoman.ids import AttemptId, InstanceId, JobId, NodeId, RequestId, SessionId
from dragoman.live.protocol import (
    AsrPartial,
    AudioFormat,
    Backpressure,
    BackpressureAction,
    Command,
    Cut,
    Device,
    Error,
    FreeForm,
    Gpu,
    Hardware,
    JobAssign,
    JobCancel,
    JobClass,
    Message,
    MissingResult,
    Mode,
    NodeControl,
    NodeHealth,
    NodeRegisterAck,
    NodeStatus,
    Pipeline,
    ResourceUsage,
    RunningJob,
    Scheduling,
    ServerHeartbeat,
    Service,
    ServiceStatus,
    ServiceType,
    SessionCloseAck,
    SessionInitAck,
    SubProtocol,
    Timings,
    TranslationResult,
    UiEvent,
    UiEventName,
    UiStatus,
    Usage,
)
from dragoman.sdk.connecting import (
    NodeConnect,
    NodeLink,
    SessionConnect,
    SessionLink,
    WebSocketConnect,
    WebSocketSessionConnect,
    node_url,
    session_url,
)
from dragoman.sdk.node.audio import AudioWanted
from dragoman.sdk.node.batching import BatchFunction, batched
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
from dragoman.sdk.node.graphics import Graphics
from dragoman.sdk.node.job import (
    Answer,
    Channel,
    Job,
    JobFailed,
    ModelMissing,
    WrongAnswer,
)
from dragoman.sdk.node.machine import MachineUsage, this_machine
from dragoman.sdk.node.node import Node
from dragoman.sdk.node.work import WorkFunction
from dragoman.sdk.session.client import SessionClient
from dragoman.sdk.session.events import SessionEvent, SessionInterrupted, SessionOpened
from dragoman.sdk.session.microphone import Microphone, Recorder
from dragoman.sdk.session.options import IfGone, SessionOptions
from dragoman.sdk.session.results import Missing, Result
from dragoman.sdk.session.sync import SyncSession, talk
from dragoman.sdk.transport import (
    Connect,
    LimitsFrames,
    Link,
    LinkClosed,
    Unreachable,
    check_frame,
)

__all__ = [
    "Accepted",
    "Answer",
    "AsrPartial",
    "AttemptId",
    "AudioFormat",
    "AudioWanted",
    "Backpressure",
    "BackpressureAction",
    "BatchFunction",
    "Channel",
    "Clock",
    "Command",
    "Commanded",
    "Connect",
    "Cut",
    "Device",
    "Disconnected",
    "Ended",
    "Error",
    "Event",
    "FreeForm",
    "FunctionFailed",
    "Gpu",
    "Graphics",
    "Hardware",
    "HealthChanged",
    "IfGone",
    "InstanceId",
    "Job",
    "JobAssign",
    "JobCancel",
    "JobClass",
    "JobFailed",
    "JobId",
    "LimitsFrames",
    "Link",
    "LinkClosed",
    "MachineUsage",
    "Message",
    "Microphone",
    "Missing",
    "MissingResult",
    "Mode",
    "ModelMissing",
    "Node",
    "NodeConnect",
    "NodeControl",
    "NodeHealth",
    "NodeId",
    "NodeLink",
    "NodeRegisterAck",
    "NodeStatus",
    "Pipeline",
    "Recorder",
    "Refused",
    "Registered",
    "RequestId",
    "ResourceUsage",
    "Result",
    "ResultNotSent",
    "RunningJob",
    "Scheduling",
    "ServerHeartbeat",
    "Service",
    "ServiceStatus",
    "ServiceType",
    "SessionClient",
    "SessionCloseAck",
    "SessionConnect",
    "SessionEvent",
    "SessionId",
    "SessionInitAck",
    "SessionInterrupted",
    "SessionLink",
    "SessionOpened",
    "SessionOptions",
    "SubProtocol",
    "SyncSession",
    "Timings",
    "TranslationResult",
    "UiEvent",
    "UiEventName",
    "UiStatus",
    "Unreachable",
    "Usage",
    "WebSocketConnect",
    "WebSocketSessionConnect",
    "WorkFunction",
    "WrongAnswer",
    "batched",
    "check_frame",
    "node_url",
    "session_url",
    "talk",
    "this_machine",
]
