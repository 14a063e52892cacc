"""HTTP from outside: the application, the server that runs it, and what routers are made with."""

from dragoman.api.app import create_app
from dragoman.api.lab import (
    PRINCIPAL_HEADER,
    READY,
    AnnotationView,
    DatasetView,
    ExperimentView,
    ImportedView,
    InvokedView,
    MirrorView,
    PaceView,
    RunAtWorkView,
    RunView,
    StartedView,
    SubmittedView,
    VersionView,
    WorkersView,
    WorkerView,
    all_parts,
    as_header,
    create_lab_app,
    lab_parts,
    opened_desk,
    opened_worker,
    serve_lab,
)
from dragoman.api.lifecycle import TRANSITIONS, Lifecycle, ServerState
from dragoman.api.live import live_parts
from dragoman.api.paging import Page, PageRequest, Paging, decode_cursor, encode_cursor
from dragoman.api.parts import Assemble, Parts, Plane, no_parts
from dragoman.api.problems import Problem, problem_response
from dragoman.api.readiness import Readiness, Verdict
from dragoman.api.server import Server, running_server
from dragoman.api.services import Services, open_services

__all__ = [
    "PRINCIPAL_HEADER",
    "READY",
    "TRANSITIONS",
    "AnnotationView",
    "Assemble",
    "DatasetView",
    "ExperimentView",
    "ImportedView",
    "InvokedView",
    "Lifecycle",
    "MirrorView",
    "PaceView",
    "Page",
    "PageRequest",
    "Paging",
    "Parts",
    "Plane",
    "Problem",
    "Readiness",
    "RunAtWorkView",
    "RunView",
    "Server",
    "ServerState",
    "Services",
    "StartedView",
    "SubmittedView",
    "Verdict",
    "VersionView",
    "WorkerView",
    "WorkersView",
    "all_parts",
    "as_header",
    "create_app",
    "create_lab_app",
    "decode_cursor",
    "encode_cursor",
    "lab_parts",
    "live_parts",
    "no_parts",
    "open_services",
    "opened_desk",
    "opened_worker",
    "problem_response",
    "running_server",
    "serve_lab",
]
