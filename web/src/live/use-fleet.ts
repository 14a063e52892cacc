import { useEffect, useSyncExternalStore } from "react";

import { consoleSocket, type Connection } from "./console-socket";
import type { FleetState, Topic } from "./fleet-state";

/** What is known of a topic, kept up to date while the component is shown. */
export function useFleet<T extends Exclude<keyof FleetState, "cursors">>(topic: T): FleetState[T] {
  useEffect(() => consoleSocket.watch([topic satisfies Topic]), [topic]);
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.state[topic]);
}

/** Since when the page shows what was; null while it does not. */
export function useLostAt(): string | null {
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.lostAt);
}

/** Whether what the page shows is live. */
export function useConnection(): Connection {
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.connection);
}
