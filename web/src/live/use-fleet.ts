import { useEffect, useSyncExternalStore } from "react";

import { consoleSocket, type Connection } from "./console-socket";
import type { FleetState, Topic } from "./fleet-state";

/** What is known of a topic, kept up to date while the component is shown. */
export function useFleet<T extends Extract<keyof FleetState, Topic>>(topic: T): FleetState[T] {
  useEffect(() => consoleSocket.watch([topic satisfies Topic]), [topic]);
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.state[topic]);
}

/** Whether more pairs are served than the page is told of. */
export function useArePairsCut(): boolean {
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.state.arePairsCut);
}

/** Since when the page shows what was; null while it does not. */
export function useLostAt(): string | null {
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.lostAt);
}

/** Whether what the page shows is live. */
export function useConnection(): Connection {
  return useSyncExternalStore(consoleSocket.subscribe, () => consoleSocket.connection);
}
