"""For your own tests: a scheduler in memory, on a clock that does not wait.

    from dragoman.testing import MemoryScheduler, virtual

    @virtual
    async def test_my_node_translates() -> None:
        async with MemoryScheduler() as scheduler:
            await scheduler.add_node(translate, nmt=["en", "es"])
            async with scheduler.session(src_lang="en", tgt_lang="es") as session:
                await session.say("hello")
                result = await session.next_result()
        assert result.text_translated == "hola"

Hours pass in milliseconds, there are no sockets, and the same seed gives the same run. Nothing here
needs pytest.
"""

from dragoman.live.gateway import (
    Delay,
    MemoryNetwork,
    fixed,
    instant,
    long_tailed,
    uniform,
)
from dragoman.testing.cluster import BRISK, MemoryCluster, MemoryInstance
from dragoman.testing.jobs import LONG_SECONDS, SubmittedJob
from dragoman.testing.links import (
    MemoryConnect,
    MemoryLink,
    MemorySessionConnect,
)
from dragoman.testing.nodes import (
    CALM,
    SERVICES,
    Behaviour,
    BehaviourOptions,
    Duration,
    JobEnding,
    SimulatedNode,
    exponential,
    seconds,
    service,
)
from dragoman.testing.scheduler import MemoryScheduler, settings_with
from dragoman.testing.shared import ServerAccess, SharedServer
from dragoman.testing.site import MemorySite, NodeOptions
from dragoman.testing.virtual import (
    Deadlock,
    VirtualClock,
    VirtualLoop,
    run_virtual,
    virtual,
)

__all__ = [
    "BRISK",
    "CALM",
    "LONG_SECONDS",
    "SERVICES",
    "Behaviour",
    "BehaviourOptions",
    "Deadlock",
    "Delay",
    "Duration",
    "JobEnding",
    "MemoryCluster",
    "MemoryConnect",
    "MemoryInstance",
    "MemoryLink",
    "MemoryNetwork",
    "MemoryScheduler",
    "MemorySessionConnect",
    "MemorySite",
    "NodeOptions",
    "ServerAccess",
    "SharedServer",
    "SimulatedNode",
    "SubmittedJob",
    "VirtualClock",
    "VirtualLoop",
    "exponential",
    "fixed",
    "instant",
    "long_tailed",
    "run_virtual",
    "seconds",
    "service",
    "settings_with",
    "uniform",
    "virtual",
]
