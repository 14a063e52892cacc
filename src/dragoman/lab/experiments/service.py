"""Experiments as users ask for them: created, started, killed, changed, read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

import msgspec
from sqlalchemy.exc import IntegrityError

from dragoman.clock import Clock
from dragoman.errors import (
    BudgetExceeded,
    DatasetEmpty,
    DragomanError,
    ExperimentNotRunning,
    ExperimentRunning,
    InvalidMessage,
    NameTaken,
    QuotaExceeded,
    StoreError,
)
from dragoman.ids import TenantId, new_id
from dragoman.lab.budgets import Spent
from dragoman.lab.cron import next_time_ms
from dragoman.lab.evaluators import fingerprints, resolved_evaluators
from dragoman.lab.experiments.appending import (
    LastRun,
    Turns,
    add_items,
    check_items,
    finish,
    latest_run,
    new_items,
)
from dragoman.lab.experiments.asking import (
    Balance,
    balance_of,
    check_balance,
    check_budget,
    check_columns,
    check_form,
    no_version,
    with_evaluators,
)
from dragoman.lab.experiments.overviews import ExperimentReading
from dragoman.lab.experiments.starting import (
    APPEND,
    SUBMIT,
    NotDue,
    Overtaken,
    StartAsk,
    Started,
    Timing,
    check_ask,
    new_run,
    no_experiment,
    start,
)
from dragoman.lab.model import (
    DatasetVersion,
    EvaluatorSpec,
    Experiment,
    ExperimentId,
    ExperimentSpec,
    Item,
    ItemId,
    Run,
    RunId,
    Turn,
)
from dragoman.lab.plugins import Context
from dragoman.lab.removal import finish_removal
from dragoman.lab.repository import (
    DueStart,
    PlannedStart,
    appending,
    datasets,
    experiments,
    leases,
    removing,
    runs,
    spending,
)
from dragoman.lab.roles import SERVER, LabRole
from dragoman.lab.states import ACTIVE, KILLABLE, RunMode, RunStatus
from dragoman.lab.targets import probe_target
from dragoman.settings import LabSettings
from dragoman.store import Store, StoreConnection, Work

Result = TypeVar("Result")

DUE_AT_ONCE = 100

CLOCKS_DIFFER_MS = 60_000
"""How far the clocks of instances may be apart: times that are so near are left as they are."""

CHANGEABLE = frozenset({"name", "description", "budget", "concurrency", "retries", "weight"})
"""The fields of an experiment that may change after it was made, even while it runs."""


class Experiments(ExperimentReading):
    """The lab's experiments, each belonging to a tenant."""

    def __init__(
        self,
        store: Store,
        settings: LabSettings,
        context: Context,
        *,
        clock: Clock,
        random: Random,
        role: LabRole = SERVER,
        on_started: Callable[[RunId], None] = lambda run_id: None,
        on_news: Callable[[RunId], None] = lambda run_id: None,
        on_killed: Callable[[RunId], None] = lambda run_id: None,
    ) -> None:
        super().__init__(store, clock)
        self._settings = settings
        self._context = context
        self._random = random
        self._role = role
        self._on_started = on_started
        self._on_news = on_news
        self._on_killed = on_killed

    async def create(self, tenant: TenantId, spec: ExperimentSpec) -> Experiment:
        """Store an experiment, once everything about it has been checked."""
        made = await self._checked(tenant, spec)
        await self._insert(made, lambda connection: None)
        return made

    async def submit(
        self, tenant: TenantId, spec: ExperimentSpec, ask: StartAsk = SUBMIT
    ) -> tuple[Experiment, Started]:
        """Create an experiment and start it: both, or neither."""
        check_ask(ask)
        made = await self._checked(tenant, spec)
        await self._probe(made)
        started = await self._insert(made, self._starting(made, ask))
        self._on_started(started.run_id)
        return made, started

    async def proposed(
        self, tenant: TenantId, spec: ExperimentSpec, given: DatasetVersion | None = None
    ) -> tuple[Experiment, DatasetVersion]:
        """An experiment as it would be made, and its dataset; checked, and not stored.

        Its name may be taken, as that of an experiment that is run again. `given` is a dataset
        that is not stored either.
        """
        if given is not None:
            spec = msgspec.structs.replace(spec, dataset_version_id=given.version_id)
        check_form(spec, self._settings)
        spec = self.resolved(spec)

        def look(connection: StoreConnection) -> tuple[Balance, DatasetVersion | None]:
            balance = balance_of(connection, tenant, self._settings)
            version_id = spec.dataset_version_id or ""
            return balance, given or datasets.find_version(connection, tenant, version_id)

        balance, version = await self._store.read(look)
        check_balance(balance)
        check_budget(spec.budget, Spent(), balance)
        check_columns(spec, version, self._context)
        if version is None or version.items == 0:
            raise DatasetEmpty("The dataset has no items; give a file that has some.")
        return self._new(tenant, spec), version

    async def start(self, tenant: TenantId, experiment_id: str, ask: StartAsk = SUBMIT) -> Started:
        """Start a run; retry_items joins a run that is under way."""
        check_ask(ask)
        found = await self.check(tenant, experiment_id)
        await self._probe(found)
        started = await self._unless_overtaken(self._starting(found, ask))
        if started.joined:
            self._on_news(started.run_id)
        else:
            self._on_started(started.run_id)
        return started

    async def score(
        self, tenant: TenantId, experiment_id: str, evaluators: Sequence[EvaluatorSpec]
    ) -> Started:
        """Have the stored outputs scored by these evaluators, without a call of the target.

        They become evaluators of the experiment; one of the same name replaces the former one.
        """
        check_ask(StartAsk(RunMode.SCORE, evaluators=tuple(evaluators)))
        names = Counter(evaluator.name for evaluator in evaluators)
        if twice := next((name for name in names if names[name] > 1), None):
            raise InvalidMessage(f"Two evaluators are called {twice!r}; give one another name.")
        found = await self._found(tenant, experiment_id)
        resolved = resolved_evaluators(tuple(evaluators), found.spec.target)
        changed = msgspec.structs.replace(found, spec=with_evaluators(found.spec, resolved))
        check_form(changed.spec, self._settings)
        await self._check_spec(changed, calls_target=False)
        ask = StartAsk(RunMode.SCORE, evaluators=resolved)
        started = await self._unless_overtaken(self._starting(changed, ask))
        self._on_started(started.run_id)
        return started

    async def invoke(
        self,
        tenant: TenantId,
        experiment_id: str,
        items: Sequence[Turns],
        ids: Sequence[ItemId] | None = None,
    ) -> list[ItemId]:
        """Add items to an experiment that waits for them; their ids, in order.

        With `ids`, an item whose id the experiment has already is left out.
        """
        found = await self._found(tenant, experiment_id)
        version = await self._version_of(found)
        check_items(items, found.spec, version, self._context)
        while True:
            made = await self._new_items(found.experiment_id, items, ids)
            if not made:
                return []
            try:
                run_id = await self._unless_overtaken(
                    lambda c: add_items(c, tenant, experiment_id, made)  # noqa: B023
                )
            except IntegrityError:
                continue  # another process gave these ids to others at the same moment
            if run_id is not None:
                self._on_news(run_id)
            return [item.item_id for item in made]

    async def _new_items(
        self, experiment_id: ExperimentId, items: Sequence[Turns], ids: Sequence[ItemId] | None
    ) -> list[Item]:
        if ids is None:
            return new_items(items, self._random, self._clock.now_ms())
        known = await self._store.read(lambda c: appending.known_own_items(c, experiment_id, ids))
        given = dict(zip(ids, items, strict=True))
        return [Item(one, tuple(turns)) for one, turns in given.items() if one not in known]

    async def finish(self, tenant: TenantId, experiment_id: str) -> RunId:
        """Let an append experiment end when its items are done; it takes no more of them.

        Between two runs of an experiment with cron, items that came since the last one get a run
        at once: the last.
        """
        at_ms = self._clock.now_ms()
        last: LastRun | None = None
        while True:
            try:
                ended = await self._store.write(
                    lambda c: finish(c, tenant, experiment_id, at_ms, last)  # noqa: B023
                )
            except Overtaken:
                last = await self._last_run(tenant, experiment_id)
            except BudgetExceeded as error:
                last = LastRun(None, _without_last_run(error))
            else:
                break
        if ended.joined:
            self._on_news(ended.run_id)
        else:
            self._on_started(ended.run_id)
        return ended.run_id

    async def _last_run(self, tenant: TenantId, experiment_id: str) -> LastRun:
        """How the last run of an experiment starts, or why it cannot."""
        found = await self._found(tenant, experiment_id)
        try:
            await self._check_spec(found)
            await self._probe(found)
        except StoreError:
            raise
        except DragomanError as error:
            return LastRun(None, _without_last_run(error))
        return LastRun(self._starting(found, APPEND, goes_on=False))

    async def due_starts(self) -> list[DueStart]:
        """Experiments with cron whose time has come."""
        now_ms = self._clock.now_ms()
        return await self._store.read(lambda c: appending.due_starts(c, now_ms, DUE_AT_ONCE))

    async def correct_times(self) -> list[PlannedStart]:
        """Bring next times forward that were reckoned by a clock that was ahead; those it moved.

        A time for which the experiment has started already is not one that it starts at again.
        """
        now_ms = self._clock.now_ms()
        moved: list[PlannedStart] = []
        last: PlannedStart | None = None
        while some := await self._store.read(
            lambda c: appending.planned_starts(c, now_ms, last, DUE_AT_ONCE)  # noqa: B023
        ):
            last = some[-1]
            moved += [one for one in some if await self._correct_time(one, now_ms)]
        return moved

    async def _correct_time(self, planned: PlannedStart, now_ms: int) -> bool:
        cron, timezone = planned.spec.cron, planned.spec.cron_timezone
        if cron is None:
            return False
        next_ms = next_time_ms(cron, timezone, now_ms + CLOCKS_DIFFER_MS)
        if next_ms >= planned.next_ms:
            return False
        started = await self._store.read(
            lambda c: appending.started_times(c, planned.experiment_id, now_ms)
        )
        while next_ms in started:
            next_ms = next_time_ms(cron, timezone, next_ms)
        if next_ms >= planned.next_ms:
            return False
        was = DueStart(planned.experiment_id, planned.tenant, planned.next_ms)
        return await self._store.write(lambda c: appending.pass_time(c, was, next_ms))

    async def start_due(self, due: DueStart) -> RunId | None:
        """Start an experiment at its time; None when another process has done it.

        A start that is refused is not made up for: the experiment says why, and its next time
        stands. Only a tenant's limit of running experiments is waited for.
        """
        found = await self._store.read(
            lambda c: experiments.find_experiment(c, due.experiment_id, tenant=due.tenant)
        )
        if found is None or found.next_run_at_ms != due.due_ms:
            return None
        try:
            await self._check_spec(found)
            await self._probe(found)
            started = await self._unless_overtaken(self._starting(found, APPEND, due))
        except NotDue:
            return None
        except QuotaExceeded:
            raise
        except DragomanError as error:
            next_ms = self._next_time(found.spec, due)
            at = datetime.fromtimestamp(due.due_ms / 1000, UTC).isoformat(timespec="seconds")
            reason = f"The run of {at} did not start: {error.message}"
            await self._store.write(lambda c: _skip(c, due, next_ms, reason))
            return None
        self._on_started(started.run_id)
        return started.run_id

    async def check(self, tenant: TenantId, experiment_id: str) -> Experiment:
        """The experiment; refused if this process cannot open its target or an evaluator now.

        Every start begins with this, before a row changes: what could be opened when the
        experiment was made may be gone, or elsewhere.
        """
        found = await self._found(tenant, experiment_id)
        await self._check_spec(found)
        return found

    async def cannot_open(self, run_id: RunId) -> str | None:
        """Why a run cannot be carried out in this process; None if it can."""

        def read(connection: StoreConnection) -> tuple[Run, Experiment] | None:
            run = runs.find_run(connection, run_id)
            if run is None:
                return None
            experiment = experiments.find_experiment(connection, run.experiment_id)
            return None if experiment is None else (run, experiment)

        found = await self._store.read(read)
        if found is None:
            return "It has been deleted."
        run, experiment = found
        try:
            await self._check_spec(experiment, calls_target=run.mode is not RunMode.SCORE)
        except DragomanError as error:
            return error.message
        return None

    async def end_run(self, run_id: RunId, reason: str) -> None:
        """End a run that cannot go on."""
        at_ms = self._clock.now_ms()

        def end(connection: StoreConnection) -> None:
            run = runs.find_run(connection, run_id, lock=True)
            if run is not None and run.status in KILLABLE:
                runs.change_status(
                    connection, run, RunStatus.TERMINATING, at_ms=at_ms, reason=reason
                )

        await self._store.write(end)

    async def holder(self, run_id: RunId) -> leases.Holder | None:
        """Which process drives a run; None if none does."""
        return await self._store.read(lambda c: leases.holder_of(c, runs.lease_name(run_id)))

    async def kill(
        self,
        tenant: TenantId,
        experiment_id: str,
        reason: str = "The run was killed.",
        *,
        let_finish: bool = False,
    ) -> RunId:
        """End the experiment's run.

        With `let_finish`, calls in flight may end by themselves first. Asked again while the run
        is ending, calls that were let finish are cancelled, and else nothing changes.
        """
        at_ms = self._clock.now_ms()

        def kill(connection: StoreConnection) -> RunId | None:
            known, run = latest_run(connection, tenant, experiment_id)
            if run is None or run.status not in ACTIVE:
                return None
            # What was stopped does not start by itself again.
            appending.set_next_run(connection, known.experiment_id, None)
            if run.status in KILLABLE:
                runs.change_status(
                    connection, run, RunStatus.TERMINATING, at_ms=at_ms, reason=reason
                )
                runs.set_let_finish(connection, run.run_id, let_finish)
            elif run.let_finish and not let_finish:
                runs.set_let_finish(connection, run.run_id, let_finish=False)
            return run.run_id

        killed = await self._unless_overtaken(kill)
        if killed is None:
            raise ExperimentNotRunning(
                f"Experiment {experiment_id} is not running; there is nothing to kill."
            )
        self._on_killed(killed)
        # This process drives the run to its end: the program that drove it may be gone.
        self._on_started(killed)
        return killed

    async def change(self, tenant: TenantId, experiment_id: str, **changes: object) -> Experiment:
        """Change name, description, budget, concurrency, retries or weight, even while it runs."""
        if unknown := changes.keys() - CHANGEABLE:
            raise InvalidMessage(
                f"{min(unknown)} cannot be changed; these can: {', '.join(sorted(CHANGEABLE))}."
            )

        def change(connection: StoreConnection) -> Experiment:
            found = experiments.find_experiment(connection, experiment_id, tenant=tenant, lock=True)
            if found is None:
                raise no_experiment(experiment_id)
            spec = msgspec.structs.replace(found.spec, **changes)
            check_form(spec, self._settings)
            if spec.budget != found.spec.budget:
                check_budget(
                    spec.budget,
                    spending.spent_by_experiment(connection, found.experiment_id),
                    balance_of(connection, tenant, self._settings),
                )
            experiments.update_spec(connection, found.experiment_id, spec)
            return msgspec.structs.replace(found, spec=spec)

        try:
            changed = await self._store.write(change)
        except IntegrityError as error:
            raise _name_taken(str(changes.get("name"))) from error
        if changed.run_id is not None:
            self._on_news(changed.run_id)
        return changed

    async def clone(self, tenant: TenantId, experiment_id: str, name: str) -> Experiment:
        """Make a new experiment like another one."""
        found = await self._found(tenant, experiment_id)
        spec = msgspec.structs.replace(found.spec, name=name, evaluator_numbers=())
        return await self.create(tenant, spec)

    async def delete(self, tenant: TenantId, experiment_id: str) -> None:
        """Remove an experiment with all its results; not while it runs."""

        def delete(connection: StoreConnection) -> None:
            _, run = latest_run(connection, tenant, experiment_id)
            if run is not None and run.status in ACTIVE:
                raise ExperimentRunning(
                    f"Experiment {experiment_id} is {run.status}; kill it before deleting it."
                )
            experiments.delete_experiment(connection, ExperimentId(experiment_id))

        await self._unless_overtaken(delete)
        await finish_removal(self._store, removing.RemovedKind.EXPERIMENT, experiment_id)

    # --- inside ---------------------------------------------------------------------------------

    async def _unless_overtaken(self, work: Work[Result]) -> Result:
        """Do the work, and repeat it when another process was quicker."""
        while True:
            try:
                return await self._store.write(work)
            except Overtaken:
                continue

    async def _checked(self, tenant: TenantId, spec: ExperimentSpec) -> Experiment:
        check_form(spec, self._settings)
        spec = self.resolved(spec)
        version_id = spec.dataset_version_id or ""

        def look(connection: StoreConnection) -> tuple[Balance, DatasetVersion | None]:
            if experiments.find_by_name(connection, tenant, spec.name) is not None:
                raise _name_taken(spec.name)
            balance = balance_of(connection, tenant, self._settings)
            return balance, datasets.find_version(connection, tenant, version_id)

        balance, version = await self._store.read(look)
        check_balance(balance)
        check_budget(spec.budget, Spent(), balance)
        check_columns(spec, version, self._context)
        return self._new(tenant, spec)

    def resolved(self, spec: ExperimentSpec) -> ExperimentSpec:
        """The experiment with what it takes from where it is made."""
        return msgspec.structs.replace(
            spec,
            # The folder of a program's functions, kept so that a later process can import them.
            modules=spec.modules or self._context.modules,
            evaluators=resolved_evaluators(spec.evaluators, spec.target),
        )

    def _new(self, tenant: TenantId, spec: ExperimentSpec) -> Experiment:
        return Experiment(
            experiment_id=ExperimentId(new_id(self._random, "e")),
            tenant=tenant,
            spec=spec,
            status=RunStatus.PENDING,
            reason=None,
            run_id=None,
            created_at_ms=self._clock.now_ms(),
            started_at_ms=None,
            ended_at_ms=None,
            next_run_at_ms=None,
        )

    async def _check_spec(self, experiment: Experiment, *, calls_target: bool = True) -> None:
        spec, version = experiment.spec, await self._version_of(experiment)
        check_columns(spec, version, self._context, calls_target=calls_target)

    async def _probe(self, experiment: Experiment) -> None:
        """Ask the target whether it would take the dataset's turns, before a run is made."""
        spec = experiment.spec
        version_id = spec.dataset_version_id
        sample: Turn | None = None
        if version_id is not None:
            first = await self._store.read(lambda c: datasets.item_at(c, version_id, 0))
            if first is not None and first.turns:
                own = first.turns[0]
                named = {
                    name: own[column] for name, column in spec.mapping.items() if column in own
                }
                sample = {**own, **named}
        context = replace(self._context.at(spec.modules), tenant=experiment.tenant)
        await probe_target(spec.target, context, sample)

    async def _version_of(self, experiment: Experiment) -> DatasetVersion | None:
        version_id = experiment.spec.dataset_version_id or ""
        return await self._store.read(
            lambda c: datasets.find_version(c, experiment.tenant, version_id)
        )

    async def _insert(self, made: Experiment, then: Work[Result]) -> Result:
        version_id = made.spec.dataset_version_id

        def insert(connection: StoreConnection) -> Result:
            if version_id is not None and not datasets.lock_version(connection, version_id):
                raise no_version(version_id)  # it was deleted since it was looked for
            experiments.insert_experiment(connection, made)
            return then(connection)

        try:
            return await self._store.write(insert)
        except IntegrityError as error:
            # Another caller took the name after the check.
            raise _name_taken(made.spec.name) from error

    def _starting(
        self,
        experiment: Experiment,
        ask: StartAsk,
        due: DueStart | None = None,
        *,
        goes_on: bool = True,
    ) -> Work[Started]:
        """Start a run; an experiment with cron that does not go on starts by itself no more."""
        run_id = RunId(new_id(self._random, "r"))
        embedded = not self._role.serves_others
        new = new_run(run_id, experiment, ask, at_ms=self._clock.now_ms(), embedded=embedded)
        spec = experiment.spec
        kept = fingerprints(spec.evaluators, self._context.at(spec.modules))
        return lambda connection: start(
            connection,
            experiment.tenant,
            experiment.experiment_id,
            ask,
            new,
            self._settings,
            msgspec.json.encode(kept).decode(),
            Timing(due, self._next_time(spec, due) if goes_on else None),
        )

    def _next_time(self, spec: ExperimentSpec, due: DueStart | None) -> int | None:
        """When the experiment starts next, always after the time that is due now.

        Times that passed meanwhile are left out: a clock that stood, jumped or went back never
        brings one twice.
        """
        if spec.cron is None:
            return None
        now_ms = self._clock.now_ms()
        after_ms = now_ms if due is None else max(now_ms, due.due_ms)
        return next_time_ms(spec.cron, spec.cron_timezone, after_ms)


def _skip(connection: StoreConnection, due: DueStart, next_ms: int | None, reason: str) -> None:
    """Pass a time without a start."""
    if next_ms is not None and appending.pass_time(connection, due, next_ms):
        appending.set_reason(connection, due.experiment_id, reason)


def _without_last_run(error: DragomanError) -> str:
    return (
        f"It was finished without a last run, which could not start: {error.message} Items that "
        "wait are taken when it is started in mode append."
    )


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"An experiment is called {name!r} already; choose another name.")
