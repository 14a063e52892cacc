import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "../api/client";
import { useMe } from "../api/identity";
import { COMMON_LANGUAGES } from "./languages";

export interface SuggestedLanguages {
  sources: readonly string[];
  targets: readonly string[];
  /** Whether the fleet serves them, or they are only common. */
  isServed: boolean;
}

const COMMON: SuggestedLanguages = {
  sources: COMMON_LANGUAGES,
  targets: COMMON_LANGUAGES,
  isServed: false,
};

/** Languages that the fleet serves, where the reader may see it; common ones elsewhere. */
export function useSuggestedLanguages(): SuggestedLanguages {
  const maySee = useMe()?.sees.includes("pools") ?? false;
  const served = useQuery({ queryKey: ["pools"], queryFn: servedLanguages, enabled: maySee });
  return served.data ?? COMMON;
}

async function servedLanguages(): Promise<SuggestedLanguages> {
  const pools = await answerOf(api.GET("/api/v1/pools", { params: { query: { limit: 1000 } } }));
  const pairs = pools.items.map(({ pair }) => pair.split(":"));
  if (pairs.length === 0) return COMMON;
  return {
    sources: [...new Set(pairs.map(([source = ""]) => source))].sort(),
    targets: [...new Set(pairs.flatMap(([, ...targets]) => targets))].sort(),
    isServed: true,
  };
}
