"""Who owns a node's name: the key that first used it, or the holder of a token given to it."""

from __future__ import annotations

import msgspec

from dragoman import errors
from dragoman.ids import InstanceId, NodeId, TenantId, new_id
from dragoman.live.fleet.node import RegisteredNode
from dragoman.live.fleet.ports import AttemptPort, FleetPeerPort
from dragoman.live.fleet.remote_nodes import write_facts
from dragoman.live.ledger import (
    Beat,
    CellFull,
    Cold,
    DirectoryFull,
    Heartbeat,
    HolderConflict,
    NodeRegistered,
    NotSeated,
    Owner,
    Placed,
    Placement,
    Registration,
    Seats,
    Stale,
)
from dragoman.live.protocol import JobCancel, NodeRegister, RunningJob
from dragoman.randomness import Secrets, is_same, token_hash


class Applicant(msgspec.Struct, frozen=True):
    """Who wants to register a node."""

    tenant: TenantId
    key_id: str | None
    """None in open mode, where a name has no owner."""
    node_id: NodeId | None = None
    """The only node the key may register."""


def choose_node_id(register: NodeRegister, applicant: Applicant, secrets: Secrets) -> NodeId:
    """The name the node asked for, its key's, or a new one.

    A new name is not to be predicted: another key could take it first.
    """
    return register.node_id or applicant.node_id or NodeId(new_id(secrets.source, "n"))


def holder_of(applicant: Applicant, node_id: NodeId, token: str) -> str:
    """How the directory stores the owner of a name: the key, and the token's hash."""
    return f"{applicant.key_id}:{token_hash(token, applicant.tenant, node_id)}"


def holds_token(holder: str, applicant: Applicant, node_id: NodeId, token: str | None) -> bool:
    """Whether the token was given for this name, and to the applicant's tenant."""
    known = holder.rpartition(":")[2]
    return token is not None and is_same(known, token_hash(token, applicant.tenant, node_id))


def holds_key(holder: str, applicant: Applicant) -> bool:
    """Whether the applicant's key is the one that first used the name."""
    return applicant.key_id == holder.rpartition(":")[0]


_CELL_TRIES = 10
_NAME_TRIES = 3
"""How often a name is asked for that changes hands between looking it up and claiming it."""


class ClaimedName:
    """A node's claim to its name, and the token that will prove it the next time."""

    __slots__ = ("_fresh", "_shown", "applicant", "token")

    def __init__(self, applicant: Applicant, shown: str | None, fresh: str) -> None:
        self.applicant = applicant
        self._shown = shown
        self._fresh = fresh
        self.token = fresh
        """The one the node showed if it is good, else a fresh one: none is kept here in clear,
        and so none can be told again."""

    def holder_of(self, node_id: NodeId, known: str) -> str:
        """Whom the name belongs to from now on; raises NodeIdConflict when it is another's."""
        if known and self._shown and holds_token(known, self.applicant, node_id, self._shown):
            self.token = self._shown
            return known
        if known and not holds_key(known, self.applicant):
            raise errors.NodeIdConflict(
                f"Node {node_id} belongs to another key; use that key, show the "
                "registration_token it was given, or choose another node_id."
            )
        self.token = self._fresh
        return holder_of(self.applicant, node_id, self._fresh)


class NodePlacement:
    """Speaks to the ledger about nodes, and to dispatch about what their attempts became."""

    def __init__(
        self,
        ledger: Seats,
        instance_id: InstanceId,
        exclusive_names: bool,
        lease_ms: int,
        peers: FleetPeerPort | None = None,
    ) -> None:
        self._ledger = ledger
        self._instance_id = instance_id
        self._exclusive_names = exclusive_names
        self._lease_ms = lease_ms
        self._peers = peers
        self._attempts: AttemptPort | None = None

    def attach(self, attempts: AttemptPort) -> None:
        self._attempts = attempts

    async def seat(
        self,
        node: RegisteredNode,
        name: ClaimedName,
        running: tuple[RunningJob, ...],
        *,
        at_least_epoch: int,
    ) -> Placed:
        """Give the node a name, a cell and a seat under its new connection."""
        not_cells: tuple[int, ...] = ()
        for _ in range(_CELL_TRIES):
            registered = await self._claim_name(node, name, at_least_epoch, not_cells)
            node.owner = registered.owner
            if registered.previous is not None:
                self._tell_superseded(node, registered.previous)
            placement = self._placement(node, running)
            placed = await self._ledger.seat(registered.cell, placement)
            if isinstance(placed, Placed):
                self._seated(node, registered.cell, placed, placement)
                return placed
            if not isinstance(placed, CellFull):
                break
            not_cells += (registered.cell,)
        raise errors.NodeIdConflict(
            f"A newer connection registered node {node.node_id} at the same moment."
        )

    async def settle(self, node: RegisteredNode, placed: Placed) -> tuple[RunningJob, ...]:
        """What became of the attempts of older connections; answers those to cancel."""
        port = self._port
        unwanted: tuple[RunningJob, ...] = ()
        if placed.unknown:
            unwanted = await port.unknown(node.cell, node.sender, placed.unknown, node.words)
        port.passed(node, placed.passed)
        port.freed(placed.freed)
        await port.lost(node.cell, placed.lost)
        return (*placed.cancelling, *unwanted)

    async def beat(
        self, node: RegisteredNode, running: tuple[RunningJob, ...]
    ) -> Beat | Stale | NotSeated | Cold:
        """Renew leases, and act on where the node's list and the ledger's differ."""
        number = node.words
        answer = await self._ledger.beat(
            node.cell, Heartbeat(node.node_id, node.owner.epoch, self._lease_ms, running, number)
        )
        if isinstance(answer, Beat):
            port = self._port
            if answer.unknown:
                unwanted = await port.unknown(node.cell, node.sender, answer.unknown, number)
                self._tell_cancel(node, unwanted)
            port.freed(answer.freed)
            await port.lost(node.cell, answer.lost)
        return answer

    async def owns_name(self, node: RegisteredNode) -> bool:
        """Whether the node's own connection is its newest, though the ledger knows it by another
        epoch: a seat was rebuilt, and the answer was lost.
        """
        entry = await self._ledger.lookup(node.node_id)
        return entry is not None and entry.owner.connection_id == node.owner.connection_id

    async def seat_again(self, node: RegisteredNode, running: tuple[RunningJob, ...]) -> bool:
        """The ledger lost the node's seat: rebuild it from what the node says."""
        registered = await self._claim_name(node, None, node.owner.epoch, ())
        placement = self._placement(node, running, registered)
        placed = await self._ledger.seat(registered.cell, placement)
        if not isinstance(placed, Placed):
            return False
        node.owner = registered.owner
        self._seated(node, registered.cell, placed, placement)
        self._tell_cancel(node, await self.settle(node, placed))
        return True

    async def _claim_name(
        self,
        node: RegisteredNode,
        name: ClaimedName | None,
        at_least_epoch: int,
        not_cells: tuple[int, ...],
    ) -> NodeRegistered:
        """Make the node's connection the owner of its name; None: it was the owner before."""
        for _ in range(_NAME_TRIES):
            holder = known = node.holder
            if self._exclusive_names and name is not None and name.applicant.key_id is not None:
                entry = await self._ledger.lookup(node.node_id)
                known = entry.holder if entry is not None else ""
                holder = name.holder_of(node.node_id, known)
            answer = await self._ledger.register(
                Registration(
                    node.node_id,
                    self._instance_id,
                    node.link.id,
                    holder=holder,
                    known_holder=known,
                    exclusive=self._exclusive_names,
                    at_least_epoch=at_least_epoch,
                    not_cells=not_cells,
                )
            )
            match answer:
                case NodeRegistered():
                    node.holder = holder
                    return answer
                case DirectoryFull():
                    raise errors.FleetFull(
                        "Every cell is full; raise scheduler.pools.max_cells, or remove nodes."
                    )
                case HolderConflict():
                    continue
        raise errors.NodeIdConflict(
            f"Another connection registered node {node.node_id} at the same moment; try again."
        )

    def _placement(
        self,
        node: RegisteredNode,
        running: tuple[RunningJob, ...],
        registered: NodeRegistered | None = None,
    ) -> Placement:
        owner = registered.owner if registered else node.owner
        facts = write_facts(node) if self._peers is not None else b""
        return Placement(node.node_id, owner, node.slots, self._lease_ms, running, facts)

    def _seated(
        self, node: RegisteredNode, cell: int, placed: Placed, placement: Placement
    ) -> None:
        node.cell, node.index = cell, placed.index
        node.seated_slots = placement.slots
        if self._peers is not None:
            node.shared = placement.facts
            self._peers.changed(cell, node.node_id)

    def _tell_superseded(self, node: RegisteredNode, previous: Owner) -> None:
        if self._peers is not None and previous.instance_id != self._instance_id:
            self._peers.superseded(node.node_id, previous)

    def _tell_cancel(self, node: RegisteredNode, unwanted: tuple[RunningJob, ...]) -> None:
        for entry in unwanted:
            node.link.send(JobCancel(entry.job_id, entry.attempt_id, "no longer wanted"))

    @property
    def _port(self) -> AttemptPort:
        if self._attempts is None:
            raise errors.InternalError("The fleet was used before dispatch was attached to it.")
        return self._attempts
