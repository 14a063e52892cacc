import { useEffect, useEffectEvent, useRef } from "react";

import { useFleet } from "../live/use-fleet";

/** Act once the server says that sessions changed since they were asked for. */
export function useSessionNews(act: () => void): void {
  const news = useFleet("sessions");
  const known = useRef(news?.cursor);
  const onChange = useEffectEvent(act);
  useEffect(() => {
    if (news === null || news.cursor === known.current) return;
    known.current = news.cursor;
    onChange();
  }, [news]);
}
