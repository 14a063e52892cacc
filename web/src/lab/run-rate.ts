import type { Experiment } from "./types";

/** How many items had ended at a time. */
export interface Done {
  atMs: number;
  items: number;
}

const WINDOW_MS = 30_000;

/** The counts of the last half minute, with a new one. */
export function doneAt(
  before: readonly Done[],
  stats: Experiment["stats"],
  atMs: number,
): readonly Done[] {
  const items = stats.success + stats.fail + stats.terminated;
  return [...before.filter((one) => atMs - one.atMs <= WINDOW_MS), { atMs, items }];
}

/** Items a second over the counts; null where there is no time between them. */
export function rateOf(done: readonly Done[]): number | null {
  const first = done[0];
  const last = done[done.length - 1];
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return null;
  return (1000 * (last.items - first.items)) / (last.atMs - first.atMs);
}
