import { QueryClient } from "@tanstack/react-query";

import { Problem } from "./client";

const TRIES = 2;

/** Asks again where trying helps: a refusal of what was asked stays one. */
function isWorthRetrying(failures: number, error: Error): boolean {
  const refused = error instanceof Problem && error.status < 500;
  return !refused && failures < TRIES;
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: isWorthRetrying, staleTime: 2_000, refetchOnWindowFocus: true },
  },
});
