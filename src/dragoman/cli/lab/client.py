"""A client for the lab's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
import msgspec

from dragoman.api import (
    AnnotationView,
    DatasetView,
    ExperimentView,
    ImportedView,
    InvokedView,
    MirrorView,
    PaceView,
    RunView,
    StartedView,
    SubmittedView,
    VersionView,
    WorkersView,
)
from dragoman.cli.lab.import_progress import CountedFile, Tell
from dragoman.cli.lab.sending import SentForm, sent_form
from dragoman.errors import (
    BY_CODE,
    DependencyDown,
    DragomanError,
    InternalError,
    NameTaken,
    NotFound,
)
from dragoman.lab.annotations import Put
from dragoman.lab.comparison import Comparison
from dragoman.lab.estimates import Rehearsal, Sample
from dragoman.lab.library import DatasetFile, ImportProgress
from dragoman.lab.model import ResultRow
from dragoman.lab.results import GroupedAggregates
from dragoman.live.protocol import ListPage

_PREFIX = "/api/v1"
_AWAY = (502, 503, 504)
_CONNECT_SECONDS = 30.0
_LOOK_SECONDS = 0.5

View = TypeVar("View")


class LabClient:
    """Asks a lab over HTTP; raises its refusals as the errors that they were there."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        resume: Callable[[str, str], Awaitable[str | None]] | None = None,
        find: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """`find` returns the server's present address, or None while there is none."""
        self._http = http
        self._find = find
        self.resume = resume
        """Resumes a run in the lab inside this program; returns whom it waits for, if any.

        None when the lab is a server's.
        """

    # --- datasets -------------------------------------------------------------------------------

    async def import_dataset(
        self, wanted: DatasetFile, name: str, tell: Tell = lambda text: None
    ) -> ImportedView:
        """Make a dataset of a file, or the next version of the dataset of that name.

        The same rows and schema make no new version. `tell` is called with how far it has come.
        """
        is_local = self.resume is not None
        with await asyncio.to_thread(sent_form, wanted, is_local=is_local) as form:
            import_id = uuid4().hex
            form.fields["import_id"] = import_id
            sent = CountedFile(form.content)
            importing = asyncio.create_task(self._import(form, sent, name))
            try:
                while not (await asyncio.wait([importing], timeout=_LOOK_SECONDS))[0]:
                    tell(await self._reached(import_id, sent, wanted))
            finally:
                importing.cancel()
                await asyncio.wait([importing])
            return importing.result()

    async def _reached(self, import_id: str, sent: CountedFile, wanted: DatasetFile) -> str:
        """How far an import has come, as a line of text."""
        try:
            found = await self._ask(ImportProgress, "GET", f"/datasets/imports/{import_id}")
        except DragomanError:  # not begun, over, or away: the import itself will tell
            return f"Sending {Path(wanted.path).name}: {sent.share:.0%}"
        return f"{found.stage.capitalize()} {Path(wanted.path).name}: {found.items:,} items"

    async def _import(self, form: SentForm, sent: CountedFile, name: str) -> ImportedView:
        while True:
            known = await self.find_dataset(name)
            path = f"/datasets/{known.dataset_id}/versions" if known else "/datasets"
            given = form.fields if known else {**form.fields, "name": name}
            sent.seek(0)
            try:
                return await self._ask(
                    ImportedView,
                    "POST",
                    path,
                    data=given,
                    files={"file": (form.file_name, sent)},
                    # However long the lab takes: if it ends, so does the connection.
                    timeout=httpx.Timeout(_CONNECT_SECONDS, read=None, write=None),
                )
            except NameTaken:
                continue  # another command made the dataset at the same moment

    async def delete_dataset(self, dataset_id: str) -> None:
        """Remove a dataset with all its versions."""
        await self._ask(Any, "DELETE", f"/datasets/{dataset_id}")

    async def find_dataset(self, name: str) -> DatasetView | None:
        """The dataset of that name."""
        page = await self._ask(ListPage[DatasetView], "GET", "/datasets", params={"name": name})
        return page.items[0] if page.items else None

    async def dataset(self, name: str) -> DatasetView:
        """The dataset of that name or id."""
        found = await self.find_dataset(name)
        if found is not None:
            return found
        try:
            return await self._ask(DatasetView, "GET", f"/datasets/{_quoted(name)}")
        except NotFound:
            raise NotFound(
                f"There is no dataset {name!r}; `dragoman dataset list` shows every dataset."
            ) from None

    async def datasets(self) -> list[DatasetView]:
        """Every dataset, by name."""
        return [one async for one in self._pages(DatasetView, "/datasets")]

    async def versions(self, dataset_id: str) -> list[VersionView]:
        """Every version of a dataset, the latest first."""
        page = await self._ask(ListPage[VersionView], "GET", f"/datasets/{dataset_id}/versions")
        return list(page.items)

    async def export(
        self,
        dataset_id: str,
        version: int | None,
        format_: str,
        write: Callable[[bytes], object],
        *,
        audio: bool = False,
    ) -> None:
        """Write a version as a file, or with its audio as a zip, piece by piece."""
        wanted = {"format": format_} | ({} if version is None else {"version": str(version)})
        if audio:
            wanted["audio"] = "true"
        await self._download(f"/datasets/{dataset_id}/export", wanted, write)

    # --- experiments ----------------------------------------------------------------------------

    async def submit(self, order: Mapping[str, Any]) -> SubmittedView:
        """Make an experiment and start it."""
        return await self._ask(SubmittedView, "POST", "/experiments/submit", json=order)

    async def estimate(self, order: Mapping[str, Any], sample: Sample | None = None) -> Rehearsal:
        """Try three items of an experiment that is not made, and estimate what a run takes."""
        given = {} if sample is None else {"sample": msgspec.to_builtins(sample)}
        path = "/experiments/estimate"
        return await self._ask(Rehearsal, "POST", path, json={**order, **given})

    async def start(
        self, experiment_id: str, mode: str, item_ids: Sequence[str] = ()
    ) -> StartedView:
        """Start a run of an experiment."""
        path = f"/experiments/{experiment_id}/runs"
        order = {"mode": mode, "item_ids": list(item_ids)}
        return await self._ask(StartedView, "POST", path, json=order)

    async def score(
        self, experiment_id: str, evaluators: Sequence[Mapping[str, Any]]
    ) -> StartedView:
        """Have the stored outputs of an experiment scored by these evaluators."""
        path = f"/experiments/{experiment_id}/score"
        return await self._ask(StartedView, "POST", path, json={"evaluators": list(evaluators)})

    async def run(self, experiment_id: str, run_id: str) -> RunView:
        """One run of an experiment."""
        page = await self._ask(ListPage[RunView], "GET", f"/experiments/{experiment_id}/runs")
        return next(run for run in page.items if run.run_id == run_id)

    async def change(self, experiment_id: str, changes: Mapping[str, Any]) -> ExperimentView:
        """Change an experiment's changeable fields, even while it runs."""
        path = f"/experiments/{experiment_id}"
        return await self._ask(ExperimentView, "PATCH", path, json=changes)

    async def kill(self, experiment_id: str, *, let_finish: bool = False) -> None:
        """End the run of an experiment; with `let_finish`, once the calls in flight have ended."""
        order = {"in_flight": "finish" if let_finish else "cancel"}
        await self._ask(Any, "POST", f"/experiments/{experiment_id}/kill", json=order)

    async def invoke(self, experiment_id: str, items: Sequence[Mapping[str, Any]]) -> list[str]:
        """Add items to an append experiment; their ids."""
        path = f"/experiments/{experiment_id}/invoke"
        return (await self._ask(InvokedView, "POST", path, json={"items": list(items)})).item_ids

    async def finish(self, experiment_id: str) -> None:
        """Let an append experiment end when its items are done."""
        await self._ask(Any, "POST", f"/experiments/{experiment_id}/finish")

    async def clear_cache(self) -> int:
        """Forget every cached answer; how many there were."""
        found: dict[str, int] = await self._ask(dict[str, int], "DELETE", "/lab/cache")
        return found["answers"]

    async def find_again(self) -> None:
        """Look up the server's address again, after it stopped answering at the old one."""
        if self._find is not None and (url := await self._find()) is not None:
            self._http.base_url = url

    async def experiments(self) -> list[ExperimentView]:
        """Every experiment, the latest first."""
        return [one async for one in self._pages(ExperimentView, "/experiments")]

    async def find_experiment(self, name: str) -> ExperimentView | None:
        """The experiment of that name."""
        params = {"name": name}
        page = await self._ask(ListPage[ExperimentView], "GET", "/experiments", params=params)
        return page.items[0] if page.items else None

    async def show(self, experiment_id: str) -> ExperimentView:
        """An experiment as it stands."""
        return await self._ask(ExperimentView, "GET", f"/experiments/{_quoted(experiment_id)}")

    async def experiment(self, name: str) -> ExperimentView:
        """The experiment of that name or id."""
        return await self.find_experiment(name) or await self.show(name)

    async def results(
        self,
        experiment_id: str,
        wanted: Any = None,
        *,
        sort: Sequence[Mapping[str, str]] = (),
        most: int,
    ) -> list[ResultRow]:
        """Rows of an experiment that pass the filter."""
        path = f"/experiments/{experiment_id}/results"
        rows: list[ResultRow] = []
        cursor: str | None = None
        while len(rows) < most:
            order = {
                "filter": wanted,
                "sort": list(sort),
                "cursor": cursor,
                "limit": min(most - len(rows), 1000),
            }
            page = await self._ask(ListPage[ResultRow], "POST", path, json=order)
            rows += page.items
            cursor = page.next
            if cursor is None:
                break
        return rows

    async def aggregates(
        self,
        experiment_id: str,
        wanted: Any = None,
        *,
        group_by: str | None = None,
        cluster: str | None = None,
    ) -> GroupedAggregates:
        """The aggregates over an experiment's rows, or over those that pass a filter."""
        tree = None if wanted is None else msgspec.json.encode(wanted).decode()
        asked = {"filter": tree, "group_by": group_by, "cluster": cluster}
        given = {name: value for name, value in asked.items() if value is not None}
        path = f"/experiments/{experiment_id}/aggregates"
        return await self._ask(GroupedAggregates, "GET", path, params=given)

    async def annotate(self, experiment_id: str, given: Sequence[Mapping[str, Any]]) -> list[Put]:
        """Store what people say of rows."""
        path = f"/experiments/{experiment_id}/annotations"
        body = {"annotations": list(given)}
        found = await self._ask(dict[str, list[Put]], "POST", path, json=body)
        return found["annotations"]

    def annotations(self, experiment_id: str) -> AsyncIterator[AnnotationView]:
        """Everything that people said of the rows of an experiment."""
        return self._pages(AnnotationView, f"/experiments/{experiment_id}/annotations")

    async def remove_annotation(self, experiment_id: str, annotation_id: str) -> None:
        """Remove what a person said."""
        path = f"/experiments/{experiment_id}/annotations/{_quoted(annotation_id)}"
        await self._ask(Any, "DELETE", path)

    async def compare(self, others: Sequence[str], **asked: Any) -> Comparison:
        """Compare experiments with a baseline; without one, with the last finished run."""
        order = {"others": list(others), **asked}
        return await self._ask(Comparison, "POST", "/experiments/compare", json=order)

    async def export_results(
        self, experiment_id: str, wanted: str | None, format_: str, write: Callable[[bytes], object]
    ) -> None:
        """Write the rows of an experiment as a file, piece by piece."""
        asked = {"format": format_} | ({} if wanted is None else {"filter": wanted})
        await self._download(f"/experiments/{experiment_id}/export", asked, write)

    # --- the mirror -----------------------------------------------------------------------------

    async def mirror(self, *, rebuild: bool = False) -> MirrorView:
        """The columnar copy of results as it stands; with `rebuild`, it is made anew from now."""
        if rebuild:
            return await self._ask(MirrorView, "POST", "/lab/mirror/rebuild")
        return await self._ask(MirrorView, "GET", "/lab/mirror")

    # --- the lab's processes --------------------------------------------------------------------

    async def workers(self) -> WorkersView:
        """Who works on what."""
        return await self._ask(WorkersView, "GET", "/lab/workers")

    async def pace(self, experiment_id: str, change: Mapping[str, object] | None) -> PaceView:
        """The pace of an experiment's target; with `change`, after it was changed."""
        path = f"/experiments/{experiment_id}/pace"
        if change is None:
            return await self._ask(PaceView, "GET", path)
        return await self._ask(PaceView, "PUT", path, json=dict(change))

    # --- inside ---------------------------------------------------------------------------------

    async def _pages(self, kind: type[View], path: str) -> AsyncIterator[View]:
        cursor: str | None = None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            page = await self._ask(ListPage[kind], "GET", path, params=params)  # type: ignore[valid-type]
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def _download(
        self, path: str, params: Mapping[str, str], write: Callable[[bytes], object]
    ) -> None:
        with self._answering():
            async with self._http.stream("GET", _PREFIX + path, params=params) as answer:
                if answer.is_error:
                    raise _refusal(answer.status_code, await answer.aread())
                async for piece in answer.aiter_bytes():
                    write(piece)

    async def _ask(self, kind: type[View], method: str, path: str, **request: Any) -> View:
        with self._answering():
            answer = await self._http.request(method, _PREFIX + path, **request)
        if answer.is_error:
            raise _refusal(answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content or b"null", type=kind)
        except msgspec.MsgspecError:
            raise DependencyDown(
                f"The program at {self._http.base_url} is not a Dragoman server of this version."
            ) from None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise DependencyDown when the server does not answer."""
        try:
            yield
        except httpx.TransportError as error:
            raise DependencyDown(
                f"The server at {self._http.base_url} does not answer ({type(error).__name__}); "
                "is it running?"
            ) from error


def _refusal(status: int, body: bytes) -> DragomanError:
    """The error that a server answered with."""
    try:
        problem = msgspec.json.decode(body)["error"]
        kind = BY_CODE.get(problem["code"], InternalError)
        return kind(problem["message"], details=problem["details"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        if status in _AWAY:  # a proxy answers for a server that is down
            return DependencyDown(f"The server does not answer (status {status}).")
        return InternalError(f"The server answered with status {status} and no explanation.")


def _quoted(part: str) -> str:
    return quote(part, safe="")
