import { useEffect, useEffectEvent, useState } from "react";

import type { Connection } from "./console-socket";
import { watchSocket } from "./watched-socket";

interface Watching<Message> {
  /** The socket; null: there is nothing to hear. */
  path: string | null;
  onMessage: (message: Message) => void;
}

/** Hear a socket's messages while the component is shown. */
export function useWatched<Message>({ path, onMessage }: Watching<Message>): Connection {
  const [connection, setConnection] = useState<Connection>("idle");
  const take = useEffectEvent(onMessage);
  useEffect(() => {
    if (path === null) return;
    return watchSocket<Message>(path, {
      onMessage: (message) => {
        take(message);
      },
      onConnection: setConnection,
    });
  }, [path]);
  return path === null ? "idle" : connection;
}
