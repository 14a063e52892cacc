import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import { useFleet } from "../live/use-fleet";
import type { History } from "./hour";

/** The last hour, asked for again when the server's clock shows another minute. */
export function useHistory(by: "pair" | "node", name?: string) {
  const minute = useFleet("overview")?.at.slice(0, 16);
  return useQuery({
    queryKey: ["history", by, name, minute],
    queryFn: (): Promise<History> =>
      answerOf(
        api.GET("/api/v1/history", {
          params: { query: { by, limit: 10, ...(name !== undefined && { name }) } },
        }),
      ),
    enabled: minute !== undefined,
    placeholderData: keepPreviousData,
  });
}
