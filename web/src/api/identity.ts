import { queryOptions, useQuery } from "@tanstack/react-query";

import { consoleSocket } from "../live/console-socket";
import { answerOf, api, setCsrfToken } from "./client";
import { queryClient } from "./queries";
import type { components } from "./schema";

export type Me = components["schemas"]["Me"];

/** Who reads the console, and what they may see and do. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async () => keep(await answerOf(api.GET("/api/v1/me"))),
  staleTime: Infinity,
});

function keep(me: Me): Me {
  setCsrfToken(me.csrf_token);
  return me;
}

/** The same for code outside the pages; asked once. */
export function knownMe(): Promise<Me> {
  return queryClient.query({ ...meQuery, staleTime: "static" });
}

export function useMe(): Me | undefined {
  return useQuery(meQuery).data;
}

/** Whether the reader may change things of this kind, such as `nodes`. */
export function useMayAct(what: string): boolean {
  return useMe()?.acts.includes(what) ?? false;
}

/** Exchange a key for a cookie; the key itself is kept nowhere. */
export async function signIn(key: string): Promise<void> {
  const me = keep(await answerOf(api.POST("/api/v1/sign-in", { body: { key } })));
  queryClient.clear();
  queryClient.setQueryData(meQuery.queryKey, me);
}

export async function signOut(): Promise<void> {
  await api.POST("/api/v1/sign-out");
  consoleSocket.signOut();
  setCsrfToken(null);
  queryClient.clear();
}
