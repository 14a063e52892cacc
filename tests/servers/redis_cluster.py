"""A real Redis Cluster of three masters."""

from __future__ import annotations

from pathlib import Path

from tests.servers.programs import free_port, wait_until
from tests.servers.redis_process import RedisProcess

_SLOT_RANGES = ((0, 5460), (5461, 10922), (10923, 16383))


class RedisCluster:
    """Three masters that share the slots; returned once all three see the whole."""

    def __init__(self, directory: Path) -> None:
        self.nodes: list[RedisProcess] = []
        try:
            bus_ports = [self._start_node(directory / str(n)) for n in range(len(_SLOT_RANGES))]
            for node, (first, last) in zip(self.nodes, _SLOT_RANGES, strict=True):
                node.command("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
            for node, bus_port in zip(self.nodes[1:], bus_ports[1:], strict=True):
                self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(bus_port))
            wait_until(self._is_whole, "the Redis Cluster to form")
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """One of the nodes; a client finds the others from there."""
        return self.nodes[0].url

    def flush(self) -> None:
        """Forget everything."""
        for node in self.nodes:
            node.flush()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def _start_node(self, directory: Path) -> int:
        """Start one node; the answer is the port on which nodes talk to each other."""
        bus_port = free_port()
        node = RedisProcess(
            directory,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"),
            *("--cluster-port", str(bus_port)),
        )
        self.nodes.append(node)
        # Distinct epochs from the start: two nodes with the same one would first have to settle it.
        node.command("CLUSTER", "SET-CONFIG-EPOCH", str(len(self.nodes)))
        return bus_port

    def _is_whole(self) -> bool:
        return all(
            "cluster_state:ok" in info
            and f"cluster_known_nodes:{len(self.nodes)}" in info
            and f"cluster_size:{len(self.nodes)}" in info
            for info in (node.command("CLUSTER", "INFO") for node in self.nodes)
        )
