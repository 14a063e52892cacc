import { useEffect, useEffectEvent } from "react";

import { consoleSocket } from "../live/console-socket";
import type { MessageOf } from "../live/fleet-state";
import { useFleet } from "../live/use-fleet";

/** Act on every message of sessions, none left out, while the component is shown. */
export function useSessionNews(act: (news: MessageOf<"sessions">) => void): void {
  useFleet("sessions");
  const onNews = useEffectEvent(act);
  useEffect(
    () =>
      consoleSocket.hear((message) => {
        if (message.type === "sessions") onNews(message);
      }),
    [],
  );
}
