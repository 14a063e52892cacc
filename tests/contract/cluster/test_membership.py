"""An instance's life: it stays, it is fenced when it must be, and it cleans up after others."""

from __future__ import annotations

import asyncio

from tests.contract.cluster.bench import ended
from tests.contract.cluster.virtual import OWNER_SECONDS, PRESENCE_SECONDS, RENEW_SECONDS, make_hub
from tests.contract.cluster.virtual import Live as Instance

from dragoman.errors import DependencyDown
from dragoman.ids import InstanceId
from dragoman.live.cluster import CleanUp, Fence, Note, Posted
from dragoman.testing import run_virtual

SLACK_SECONDS = 2 * RENEW_SECONDS + 1
"""What the others need to notice something that has become true."""


def test_instances_that_live_see_each_other_for_as_long_as_they_do() -> None:
    async def live() -> None:
        hub = make_hub()
        one, other = Instance(hub, "one"), Instance(hub, "other")
        await one.start()
        await other.start()
        await asyncio.sleep(20 * PRESENCE_SECONDS)
        views = await one.cluster.instances()
        assert [view.alive for view in views] == [True, True]
        assert one.fences == other.fences == []
        await one.stop()
        await other.stop()

    run_virtual(live, seed=1)


def test_after_a_crash_one_peer_inherits_the_notes_once() -> None:
    async def live() -> None:
        hub = make_hub()
        crashed = Instance(hub, "crashed")
        peers = [Instance(hub, f"peer-{number}") for number in range(3)]
        for instance in (crashed, *peers):
            await instance.start()
        await crashed.crash()
        for number in range(3):
            answer = await peers[0].cluster.post(InstanceId("crashed"), ended(number))
            assert answer == Posted()
        await asyncio.sleep(OWNER_SECONDS + SLACK_SECONDS)
        inherited = [told for peer in peers for told in peer.inherited]
        assert inherited == [("crashed", tuple(ended(number) for number in range(3)))]
        views = await peers[0].cluster.instances()
        assert [view.instance_id for view in views] == ["peer-0", "peer-1", "peer-2"]
        for peer in peers:
            await peer.stop()

    run_virtual(live, seed=2)


def test_an_instance_that_was_paused_too_long_drops_its_sockets_and_goes_on() -> None:
    async def live() -> None:
        hub = make_hub()
        one, paused = Instance(hub, "one"), Instance(hub, "paused")
        await one.start()
        await paused.start()
        hub.faults.pause(InstanceId("paused"))
        await asyncio.sleep(OWNER_SECONDS + SLACK_SECONDS)
        assert one.inherited == [("paused", ())]
        hub.faults.resume(InstanceId("paused"))
        await asyncio.sleep(SLACK_SECONDS)
        # Its pulse tells it; that it was taken down, the cluster.
        assert set(paused.fences) <= {Fence.PAUSED, Fence.TAKEN_DOWN}
        assert Fence.TAKEN_DOWN in paused.fences
        assert await one.cluster.post(InstanceId("paused"), ended(1)) == Posted()
        await asyncio.sleep(SLACK_SECONDS)
        assert paused.notes == [ended(1)]
        await one.stop()
        await paused.stop()

    run_virtual(live, seed=3)


def test_a_frozen_process_reads_no_note_before_its_sockets_are_gone() -> None:
    async def live() -> None:
        hub = make_hub()
        one = Instance(hub, "one")
        await one.start()
        # The process did not run, and now it does: only the pulse can tell.
        one.pulse.paused(hub.clock.monotonic() - 2 * PRESENCE_SECONDS)
        assert one.pulse.paused(hub.clock.monotonic())
        await one.cluster.post(InstanceId("one"), ended(1))
        while not one.fences:
            assert one.notes == []
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert one.fences == [Fence.PAUSED]
        assert one.notes == [ended(1)]
        await one.stop()

    run_virtual(live, seed=4)


def test_after_an_outage_every_instance_goes_on_and_none_drops_a_socket() -> None:
    async def live() -> None:
        hub = make_hub()
        instances = [Instance(hub, f"i-{number}") for number in range(4)]
        for instance in instances:
            await instance.start()
        hub.go_down()
        await asyncio.sleep(10 * OWNER_SECONDS)
        hub.come_back()
        await asyncio.sleep(OWNER_SECONDS + SLACK_SECONDS)
        views = await instances[0].cluster.instances()
        assert [view.alive for view in views] == [True] * 4
        assert all(instance.fences == [] for instance in instances)
        assert all(instance.inherited == [] for instance in instances)
        for instance in instances:
            await instance.stop()

    run_virtual(live, seed=5)


def test_after_everything_was_forgotten_everybody_is_there_again() -> None:
    async def live() -> None:
        hub = make_hub()
        instances = [Instance(hub, f"i-{number}") for number in range(3)]
        for instance in instances:
            await instance.start()
        await asyncio.sleep(1)
        hub.forget()
        await asyncio.sleep(SLACK_SECONDS)
        assert [view.alive for view in await instances[0].cluster.instances()] == [True] * 3
        assert await instances[0].cluster.post(InstanceId("i-1"), ended(1)) == Posted()
        await asyncio.sleep(1)
        assert instances[1].notes == [ended(1)]
        assert all(instance.fences == [] for instance in instances)
        for instance in instances:
            await instance.stop()

    run_virtual(live, seed=6)


def test_a_process_whose_name_was_taken_drops_its_sockets_and_stops() -> None:
    async def live() -> None:
        hub = make_hub()
        first, second = Instance(hub, "one"), Instance(hub, "one")
        await first.start()
        await second.start()
        await asyncio.sleep(SLACK_SECONDS)
        assert first.fences == [Fence.SUPERSEDED]
        assert second.fences == []
        assert await second.cluster.post(InstanceId("one"), ended(1)) == Posted()
        await asyncio.sleep(1)
        assert (first.notes, second.notes) == ([], [ended(1)])
        await first.stop()
        await second.stop()

    run_virtual(live, seed=7)


def test_instances_that_stop_one_after_the_other_leave_nothing_behind() -> None:
    async def live() -> None:
        hub = make_hub()
        instances = [Instance(hub, f"i-{number}") for number in range(3)]
        for instance in instances:
            await instance.start()
        await asyncio.sleep(PRESENCE_SECONDS)
        for instance in instances:
            await instances[-1].cluster.post(instance.cluster.instance_id, ended(1))
            await asyncio.sleep(1)
            await instance.stop()
        assert all(instance.notes == [ended(1)] for instance in instances)
        assert hub.instances == {}

    run_virtual(live, seed=8)


def test_a_cluster_whose_answers_get_lost_still_cleans_up_exactly_once() -> None:
    async def live(seed: int) -> None:
        hub = make_hub(seed)
        crashed = Instance(hub, "crashed")
        peers = [Instance(hub, f"peer-{number}") for number in range(3)]
        for instance in (crashed, *peers):
            await instance.start()
        await crashed.crash()
        for number in range(5):
            await peers[0].cluster.post(InstanceId("crashed"), ended(number))
        hub.faults.lost_answers = 0.3
        await asyncio.sleep(5 * OWNER_SECONDS)
        hub.faults.lost_answers = 0.0
        await asyncio.sleep(OWNER_SECONDS)
        notes = [note for peer in peers for _, told in peer.inherited for note in told]
        # A drain whose answer was lost loses its notes: they are hints. None comes twice.
        assert len(notes) == len(set(notes))
        assert {*notes} <= {ended(number) for number in range(5)}
        views = await peers[0].cluster.instances()
        assert [view.instance_id for view in views] == ["peer-0", "peer-1", "peer-2"]
        for peer in peers:
            assert peer.fences == []
            await peer.stop()

    for seed in range(10):
        run_virtual(live(seed), seed=seed)


def test_a_holder_that_fails_does_not_make_its_instance_vanish() -> None:
    async def live() -> None:
        hub = make_hub()
        one, crashed = Clumsy(hub, "one"), Instance(hub, "crashed")
        await one.start()
        await crashed.start()
        await crashed.crash()
        await asyncio.sleep(OWNER_SECONDS + 3 * SLACK_SECONDS)
        assert one.times_failed == 2
        views = await one.cluster.instances()
        assert [(view.instance_id, view.alive) for view in views] == [("one", True)]
        await one.stop()

    run_virtual(live, seed=9)


def test_an_instance_whose_clean_up_takes_long_stays_present_meanwhile() -> None:
    async def live() -> None:
        hub = make_hub()
        one, crashed = Slow(hub, "one"), Instance(hub, "crashed")
        await one.start()
        await crashed.start()
        await crashed.crash()
        await asyncio.sleep(OWNER_SECONDS + SLACK_SECONDS + 3 * PRESENCE_SECONDS)
        views = await one.cluster.instances()
        assert [(view.instance_id, view.alive) for view in views] == [
            ("crashed", False),
            ("one", True),
        ]
        await one.stop()

    run_virtual(live, seed=10)


class Slow(Instance):
    """An instance that takes its time to clean up."""

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        await asyncio.sleep(5 * PRESENCE_SECONDS)


class Clumsy(Instance):
    """An instance that fails twice before it manages to clean up."""

    times_failed = 0

    async def inherit(self, gone: CleanUp, notes: tuple[Note, ...]) -> None:
        if self.times_failed < 2:
            self.times_failed += 1
            raise DependencyDown("away") if self.times_failed == 1 else ValueError("a bug")
