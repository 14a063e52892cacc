"""The lab's outside: a process of its own, its routes, and how a server asks it."""

from dragoman.api.lab.app import create_lab_app
from dragoman.api.lab.child import READY, WayBack
from dragoman.api.lab.parts import all_parts, lab_parts
from dragoman.api.lab.principals import PRINCIPAL_HEADER, as_header
from dragoman.api.lab.pushing import ExperimentMessage, ListMessage
from dragoman.api.lab.routes.mirror import MirrorView
from dragoman.api.lab.routes.pace import PaceView
from dragoman.api.lab.routes.workers import RunAtWorkView, WorkersView, WorkerView
from dragoman.api.lab.serving import opened_desk, opened_worker, serve_lab
from dragoman.api.lab.views import (
    AnnotationView,
    DatasetView,
    ExperimentView,
    ImportedView,
    InvokedView,
    RunView,
    StartedView,
    SubmittedView,
    VersionView,
)

__all__ = [
    "PRINCIPAL_HEADER",
    "READY",
    "AnnotationView",
    "DatasetView",
    "ExperimentMessage",
    "ExperimentView",
    "ImportedView",
    "InvokedView",
    "ListMessage",
    "MirrorView",
    "PaceView",
    "RunAtWorkView",
    "RunView",
    "StartedView",
    "SubmittedView",
    "VersionView",
    "WayBack",
    "WorkerView",
    "WorkersView",
    "all_parts",
    "as_header",
    "create_lab_app",
    "lab_parts",
    "opened_desk",
    "opened_worker",
    "serve_lab",
]
