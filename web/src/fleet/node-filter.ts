import type { NodeRow } from "../live/fleet-state";

export const NODE_STATES = ["registering", "ready", "degraded", "draining", "offline"] as const;
export type NodeState = (typeof NODE_STATES)[number];

export const NODE_SORTS = ["node_id", "status", "cell", "used"] as const;
export type NodeSort = (typeof NODE_SORTS)[number];

/** Which nodes a page shows and in what order, as its address has it. */
export interface NodeFilter {
  q?: string;
  status?: NodeState;
  pair?: string;
  sort?: NodeSort;
  desc?: boolean;
  /** Squares instead of rows. */
  view?: "cells";
}

/** The filter of an address; what makes no sense in it is left out. */
export function nodeFilterOf(search: Readonly<Record<string, unknown>>): NodeFilter {
  const { q, pair, desc } = search;
  const status = NODE_STATES.find((known) => known === search["status"]);
  const sort = NODE_SORTS.find((known) => known === search["sort"]);
  return {
    ...((typeof q === "string" || typeof q === "number") && q !== "" && { q: String(q) }),
    ...(typeof pair === "string" && pair !== "" && { pair }),
    ...(status && { status }),
    ...(sort && { sort }),
    ...(desc === true && { desc }),
    ...(search["view"] === "cells" && { view: "cells" as const }),
  };
}

/** Whether it is a whole pair, such as `en:es`, and not the beginning of one. */
export function isPair(written: string): boolean {
  return /^[^\s:/]{2,}:[^\s:/]{2,}$/.test(written);
}

/** The nodes that pass; members are those of the pair, where one is asked for. */
export function filteredNodes(
  rows: Iterable<NodeRow>,
  filter: NodeFilter,
  members: ReadonlySet<string> | null,
): NodeRow[] {
  const words = (filter.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found: NodeRow[] = [];
  for (const row of rows) {
    if (filter.status !== undefined && row.status !== filter.status) continue;
    if (filter.pair !== undefined && !members?.has(row.node_id)) continue;
    if (words.every((word) => mentions(row, word))) found.push(row);
  }
  return found;
}

function mentions(row: NodeRow, word: string): boolean {
  return (
    row.node_id.toLowerCase().includes(word) ||
    row.services.some((service) => service === word) ||
    row.languages.some((language) => language.toLowerCase() === word) ||
    (row.reason?.toLowerCase().includes(word) ?? false)
  );
}
