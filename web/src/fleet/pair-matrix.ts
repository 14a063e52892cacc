import type { PairRow } from "../live/fleet-state";

/** Pairs as a matrix: a row for each language that is spoken, a column for each that is heard. */
export interface PairMatrix {
  sources: readonly string[];
  targets: readonly string[];
  at: (source: string, target: string) => PairRow | undefined;
}

export function pairMatrix(pairs: Iterable<PairRow>): PairMatrix {
  const rows = new Map<string, PairRow>();
  const sources = new Set<string>();
  const targets = new Set<string>();
  for (const row of pairs) {
    const [source, target] = row.pair.split(":");
    // Refusals beyond those counted by pair have no languages.
    if (source === undefined || target === undefined) continue;
    rows.set(row.pair, row);
    sources.add(source);
    targets.add(target);
  }
  return {
    sources: [...sources].sort(),
    targets: [...targets].sort(),
    at: (source, target) => rows.get(`${source}:${target}`),
  };
}

export const PAIR_HEALTHS = ["free", "busy", "full", "unserved"] as const;
export type PairHealth = (typeof PAIR_HEALTHS)[number];

/** How a pair stands, for its colour. */
export function pairHealth(row: PairRow): PairHealth {
  if (row.ready === 0) return "unserved";
  if (row.free === 0) return "full";
  return row.free * 4 < row.slots ? "busy" : "free";
}
