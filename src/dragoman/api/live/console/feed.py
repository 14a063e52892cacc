"""Looks at the fleet for all consoles together, twice a second, while any console is open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dragoman.api.live.console.figures import Figures
from dragoman.api.live.console.messages import (
    ConsoleMessage,
    InstanceRow,
    InstancesMessage,
    NodeRow,
    NodesMessage,
    OverviewMessage,
    PairRow,
    PairsMessage,
    SessionsMessage,
    Topic,
)
from dragoman.api.live.console.tables import Table
from dragoman.api.live.node_views import Seating, SeatsOfCell, shown_status
from dragoman.api.live.pools import Members, served_pairs, spelt_pair
from dragoman.api.live.sessions import session_view
from dragoman.auth import Principal, may_see
from dragoman.clock import Clock
from dragoman.errors import DragomanError, NotFound
from dragoman.ids import InstanceId, NodeId, SessionId, TenantId, new_id
from dragoman.live.fleet import why_no_jobs
from dragoman.live.gateway import LivePlane
from dragoman.live.protocol import NodeHealth, SessionView, utc_time
from dragoman.live.snapshot import CellView, Pair
from dragoman.observability import Metrics, get_logger, yielding
from dragoman.randomness import Randomness

TICK_SECONDS = 0.5
CELLS_A_TICK = 20
"""Cells that are read at each look, besides those that changed: the slots in use change without
the snapshot. A fleet of 10,000 nodes is read anew every few seconds."""

ROWS_A_MESSAGE = 1_000
SESSIONS_A_MESSAGE = 500
"""Where more sessions changed, a page does better to ask for those that it shows."""

PAIRS_SHOWN = 2_500
SLOW_SECONDS = 2.0
"""How often pairs, sessions and instances are looked at."""

PAIRS_SHARE = 20
"""Pairs are looked at so seldom that it takes at most this fraction of the time."""

_log = get_logger(__name__)


class ConsoleFeed:
    """The state that consoles show, and its changes. A plane of the server: it stops with it."""

    def __init__(
        self,
        plane: LivePlane,
        instance_id: InstanceId,
        metrics: Metrics,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._plane = plane
        self._instance_id = instance_id
        self._metrics = metrics
        self._clock = clock
        self._epoch = new_id(randomness.stream("console epochs"), "c")
        """Cursors of another process mean nothing here."""
        self._watched: Counter[Topic] = Counter()
        self._looking: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._figures = Figures()
        self._nodes: Table[NodeId, NodeRow] = Table()
        self._pairs: Table[str, PairRow] = Table()
        self._pairs_cut = False
        self._cells: dict[int, CellView] = {}
        """As they were when their nodes were looked at."""
        self._seats: dict[int, SeatsOfCell] = {}
        self._next_cell = 0
        self._pairs_due = self._others_due = 0.0
        self._overview: OverviewMessage | None = None
        self._sessions: Table[tuple[TenantId, SessionId], SessionView] = Table()
        """Those of this instance."""
        self._sessions_active: int | None = None
        """Those of all instances; None: they were not looked at yet."""
        self._elsewhere: object = None
        """How other instances' sessions stood when they were last looked at."""
        self._instances: InstancesMessage | None = None
        self._versions: Counter[Topic] = Counter()

    # --- a part of the server -------------------------------------------------------------------

    async def start(self) -> None:
        """The looking begins with the first console."""

    async def drain(self) -> None:
        """There is nothing to wait for."""

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    # --- for consoles ---------------------------------------------------------------------------

    @contextmanager
    def watching(self, topics: frozenset[Topic]) -> Iterator[None]:
        """Have these topics kept up to date meanwhile."""
        self._watched.update(topics)
        if self._looking is None or self._looking.done():
            self._figures = Figures()
            # So that the first console, too, sees what happened in the last minute.
            for at, part in self._plane.stats_source.recent:
                self._figures.add(at, part)
            looking = self._look_while_watched()
            self._looking = asyncio.get_running_loop().create_task(looking, name="console feed")
        try:
            yield
        finally:
            self._watched.subtract(topics)

    async def next_look(self) -> None:
        """Wait until the fleet was looked at again."""
        await self._looked.wait()

    def news(self, topic: Topic, cursor: str | None, reader: Principal) -> Iterator[ConsoleMessage]:
        """What a console that stands at the cursor has missed; None: it knows nothing."""
        version = self._version_of(cursor)
        match topic:
            case Topic.NODES:
                yield from self._nodes_since(version)
            case Topic.PAIRS:
                yield from self._pairs_since(version)
            case Topic.SESSIONS:
                yield from self._sessions_since(cursor, reader)
            case Topic.OVERVIEW | Topic.INSTANCES:
                states = {
                    Topic.OVERVIEW: self._overview,
                    Topic.INSTANCES: self._instances,
                }
                state = states[topic]
                if state is not None and state.cursor != cursor:
                    yield state

    def _version_of(self, cursor: str | None) -> int | None:
        epoch, _, version = (cursor or "").rpartition(".")
        return int(version) if epoch == self._epoch and version.isdecimal() else None

    def _cursor(self, version: int) -> str:
        return f"{self._epoch}.{version}"

    def _nodes_since(self, version: int | None) -> Iterator[NodesMessage]:
        change = self._nodes.since(version)
        # Taken now: while the messages are sent, more may change.
        cursor = self._cursor(self._nodes.version)
        if not (change.reset or change.changed or change.gone):
            return
        starts = range(0, max(1, len(change.changed)), ROWS_A_MESSAGE)
        for start in starts:
            yield NodesMessage(
                cursor=cursor,
                reset=change.reset and start == 0,
                changed=change.changed[start : start + ROWS_A_MESSAGE],
                gone=change.gone if start == 0 else [],
                more=start != starts[-1],
            )

    def _pairs_since(self, version: int | None) -> Iterator[PairsMessage]:
        change = self._pairs.since(version)
        if not (change.reset or change.changed or change.gone):
            return
        cursor = self._cursor(self._pairs.version)
        yield PairsMessage(
            cursor, change.reset, change.changed, change.gone, False, self._pairs_cut
        )

    def _sessions_since(self, cursor: str | None, reader: Principal) -> Iterator[SessionsMessage]:
        if self._sessions_active is None:
            return
        # What other instances' sessions did is told by no row: a cursor from before it is too old.
        known, _, of_table = (cursor or "").rpartition("-")
        era = self._cursor(self._versions[Topic.SESSIONS])
        version = int(of_table) if known == era and of_table.isdecimal() else None
        change = self._sessions.since(version)
        if not (change.reset or change.changed or change.gone):
            return
        cursor = f"{era}-{self._sessions.version}"
        changed = [view for view in change.changed if may_see(reader, view.tenant_id)]
        gone = [session_id for tenant, session_id in change.gone if may_see(reader, tenant)]
        if change.reset or len(changed) + len(gone) > SESSIONS_A_MESSAGE:
            yield SessionsMessage(cursor, self._sessions_active, again=True)
        else:
            yield SessionsMessage(cursor, self._sessions_active, False, changed, gone)

    # --- looking --------------------------------------------------------------------------------

    async def _look_while_watched(self) -> None:
        # A console that goes from page to page leaves for a moment only.
        while self._watched.total():
            problem = None
            try:
                await self._look()
            except DragomanError as error:
                problem = error.message
            except Exception:
                _log.exception("console_look_failed")
                problem = "The server could not look at the fleet; its log says why."
            if problem is not None and self._overview is not None:
                self._show_overview(self._overview.slots_used, problem)
            self._looked.set()
            self._looked.clear()
            await asyncio.sleep(TICK_SECONDS)

    async def _look(self) -> None:
        now = self._clock.monotonic()
        self._figures.add(now, self._plane.stats_source.whole())
        self._show_overview(await self._plane.ledger.slots_held())
        if self._watched[Topic.NODES] or self._watched[Topic.PAIRS]:
            await self._look_at_nodes()
        if self._watched[Topic.PAIRS] and now >= self._pairs_due:
            await self._look_at_pairs()
            took = self._clock.monotonic() - now
            self._pairs_due = now + max(SLOW_SECONDS, PAIRS_SHARE * took)
        if now >= self._others_due:
            self._others_due = now + SLOW_SECONDS
            if self._watched[Topic.SESSIONS]:
                await self._look_at_sessions()
            if self._watched[Topic.INSTANCES]:
                await self._look_at_instances()

    def _next_cursor(self, topic: Topic) -> str:
        self._versions[topic] += 1
        return self._cursor(self._versions[topic])

    def _show_overview(self, slots_used: int, problem: str | None = None) -> None:
        figures, census = self._figures, self._plane.registry.census
        part = figures.last
        self._overview = OverviewMessage(
            cursor=self._next_cursor(Topic.OVERVIEW),
            at=utc_time(self._clock.now_ms()),
            nodes={status: census.by_status[status] for status in NodeHealth},
            slots=census.slots,
            slots_used=slots_used,
            sessions=part.sessions,
            jobs_running=part.jobs_running,
            jobs_waiting=part.jobs_waiting,
            jobs_per_second=figures.jobs_per_second(),
            succeeded=part.jobs_success,
            failed=part.jobs_failed,
            job_duration=figures.job_duration(self._metrics.job_duration.bounds),
            dispatch_latency=figures.dispatch_latency(self._metrics.dispatch_latency.bounds),
            refused=figures.refused(),
            problem=problem,
            refused_reasons=figures.refused_reasons(),
        )

    async def _look_at_nodes(self) -> None:
        snapshot = self._plane.snapshots.current
        for number in self._cells.keys() - snapshot.cells.keys():
            self._forget_cell(number)
        changed = [
            number for number, view in snapshot.cells.items() if self._cells.get(number) is not view
        ]
        for number in dict.fromkeys([*changed, *self._cells_in_turn(snapshot.cells)]):
            seats = await Seating(self._plane.ledger).of(number)
            await self._look_at_cell(snapshot.cells[number], seats)

    def _cells_in_turn(self, cells: Mapping[int, CellView]) -> list[int]:
        numbers = sorted(cells)
        if not numbers:
            return []
        first = self._next_cell % len(numbers)
        self._next_cell = first + CELLS_A_TICK
        return [*numbers[first:], *numbers[:first]][:CELLS_A_TICK]

    async def _look_at_cell(self, view: CellView, seats: SeatsOfCell) -> None:
        before = self._cells.get(view.number)
        for node_id in before.indexes.keys() - view.indexes.keys() if before else ():
            self._nodes.remove(node_id)
        self._cells[view.number], self._seats[view.number] = view, seats
        async for node_id in yielding(list(view.indexes), self._clock):
            row = self._node_row(node_id, seats)
            if row is None:
                self._nodes.remove(node_id)
            else:
                self._nodes.put(node_id, row)

    def _node_row(self, node_id: NodeId, seats: SeatsOfCell) -> NodeRow | None:
        try:
            node = self._plane.registry.known(node_id)
        except NotFound:  # forgotten since the snapshot was taken
            return None
        seat = seats.get(node_id)
        languages = node.languages
        spoken = {
            *languages.asr_langs,
            *languages.semantic_langs,
            *languages.nmt_langs,
            *languages.tts_langs,
        }
        return NodeRow(
            node_id=node_id,
            status=shown_status(node, seat),
            reason=why_no_jobs(node, self._plane.snapshots.current.rule),
            cell=node.cell,
            slots=node.slots,
            used=seat.held if seat is not None else 0,
            services=tuple(sorted({service.type for service in node.services})),
            languages=tuple(sorted(spoken)),
            instance_id=node.owner.instance_id,
        )

    def _forget_cell(self, number: int) -> None:
        for node_id in self._cells.pop(number).indexes:
            self._nodes.remove(node_id)
        self._seats.pop(number, None)

    async def _look_at_pairs(self) -> None:
        snapshot = self._plane.snapshots.current
        refused = self._figures.refused_pairs()
        room = _Room(snapshot.cells, self._seats)
        shown: set[str] = set()
        is_cut = False
        async for pair, members in served_pairs(snapshot, ("", ""), self._clock):
            if len(shown) == PAIRS_SHOWN:
                is_cut = True
                break
            row = self._pair_row(pair, members, room, refused)
            shown.add(row.pair)
            self._pairs.put(row.pair, row)
        self._pairs_cut = is_cut
        for pair_name, count in refused.items():
            if pair_name not in shown:
                shown.add(pair_name)
                self._pairs.put(pair_name, PairRow(pair_name, 0, 0, 0, 0, count))
        for gone in set(self._pairs.keys()) - shown:
            self._pairs.remove(gone)

    def _pair_row(
        self, pair: Pair, members: Members, room: _Room, refused: Mapping[str, int]
    ) -> PairRow:
        nodes = ready = slots = free = 0
        for number, by_kind in members.items():
            mask = 0
            for of_kind in by_kind.values():
                mask |= of_kind
            nodes += mask.bit_count()
            found = room.of(number, mask)
            ready, slots, free = ready + found[0], slots + found[1], free + found[2]
        name = spelt_pair(room.cells[next(iter(members))], pair)
        return PairRow(name, nodes, ready, slots, free, refused.get(name, 0))

    async def _look_at_sessions(self) -> None:
        part = self._figures.last
        shown: set[tuple[TenantId, SessionId]] = set()
        async for session in yielding(self._plane.sessions, self._clock):
            key = session.tenant, session.session_id
            shown.add(key)
            self._sessions.put(key, session_view(session, self._instance_id))
        for gone in set(self._sessions.keys()) - shown:
            self._sessions.remove(gone)
        self._sessions_active = part.sessions
        if self._plane.member is None:
            return
        # What other instances' sessions do is known by what becomes of their jobs.
        jobs = (part.jobs_created, part.jobs_success, part.jobs_failed)
        elsewhere = (part.session_changes, part.sessions, jobs)
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self._versions[Topic.SESSIONS] += 1

    async def _look_at_instances(self) -> None:
        plane = self._plane
        if plane.member is None:
            own = InstanceRow(
                instance_id=self._instance_id,
                alive=True,
                nodes=len(plane.registry),
                sessions=len(plane.sessions),
                inbox_length=0,
                pending=0,
                dead_letters=0,
                draining=False,
            )
            items = [own]
        else:
            items = [
                InstanceRow(
                    instance_id=view.instance_id,
                    alive=view.alive,
                    nodes=view.card.nodes,
                    sessions=view.card.sessions,
                    inbox_length=view.inbox_length,
                    pending=view.pending,
                    dead_letters=view.dead_letters,
                    draining=view.card.draining,
                )
                for view in await plane.member.cluster.instances()
            ]
        self._instances = InstancesMessage(self._next_cursor(Topic.INSTANCES), items)


class _Room:
    """How much room sets of nodes have; most pairs of a cell are served by the same nodes."""

    def __init__(self, cells: Mapping[int, CellView], seats: Mapping[int, SeatsOfCell]) -> None:
        self.cells = cells
        self._seats = seats
        self._known: dict[tuple[int, int], tuple[int, int, int]] = {}

    def of(self, number: int, mask: int) -> tuple[int, int, int]:
        """Of the nodes of a cell: how many are ready, their slots, and the free ones of these."""
        found = self._known.get((number, mask))
        if found is None:
            view, seats = self.cells[number], self._seats.get(number, {})
            ready = view.node_ids(mask & view.ready)
            taken = [seat for node_id in ready if (seat := seats.get(node_id)) is not None]
            slots = sum(seat.slots for seat in taken)
            free = sum(max(0, seat.slots - seat.held) for seat in taken)
            found = self._known[number, mask] = (len(ready), slots, free)
        return found
