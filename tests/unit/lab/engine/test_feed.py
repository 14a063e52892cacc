"""The feed: watchers hear of their experiment, and the lab does not wait for a slow one."""

from __future__ import annotations

import asyncio

from dragoman.lab.feed import WATCHER_CHANGES_MAX, ItemsArchived, RunEnded, WatcherFeed
from dragoman.lab.model import ExperimentId, ItemId, ItemKey, RunId
from dragoman.lab.states import RunStatus

MINE, OTHER, RUN = ExperimentId("e-1"), ExperimentId("e-2"), RunId("r")


def test_a_watcher_hears_of_its_experiment_only() -> None:
    async def story() -> None:
        feed = WatcherFeed()
        with feed.watch(MINE) as watcher:
            feed.publish(RunEnded(OTHER, RUN, RunStatus.SUCCESS))
            feed.publish(RunEnded(MINE, RUN, RunStatus.FAILED))

            assert await anext(watcher) == RunEnded(MINE, RUN, RunStatus.FAILED)

    asyncio.run(story())


def test_a_watcher_that_does_not_keep_up_loses_the_oldest() -> None:
    async def story() -> None:
        feed = WatcherFeed()
        with feed.watch(MINE) as watcher:
            for number in range(WATCHER_CHANGES_MAX + 3):
                feed.publish(ItemsArchived(MINE, RUN, (ItemKey(ItemId(str(number))),)))

            assert await anext(watcher) == ItemsArchived(MINE, RUN, (ItemKey(ItemId("3")),))

    asyncio.run(story())
