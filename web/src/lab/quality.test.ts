import { expect, test } from "vitest";

import { qualityOf, runMoments } from "./quality";
import type { Run, ScoreSummary } from "./types";

const score = (mean: number, ci95: [number, number] | null = null): ScoreSummary => ({
  count: 1,
  mean,
  ci95,
  corpus: null,
  pass_rate: null,
});
const run = (ended_at: string | null, scores: Record<string, ScoreSummary>): Run =>
  ({ ended_at, scores }) as unknown as Run;

test("a run that has not ended, or has no score, tells nothing of quality", () => {
  const runs = [run(null, { exact: score(1) }), run("1970-01-01T00:00:20Z", {})];
  expect(runMoments(runs)).toEqual([]);
});

test("scores stand in the order of time, with the bounds of those that have them", () => {
  const quality = qualityOf([
    { at: "1970-01-01T00:00:20Z", scores: { exact: score(0.5, [0.4, 0.6]) } },
    { at: "1970-01-01T00:00:10Z", scores: { exact: score(1) } },
  ]);
  expect(quality).toEqual([
    { name: "exact", times: [10, 20], means: [1, 0.5], lows: [1, 0.4], highs: [1, 0.6] },
  ]);
});

test("a score of one moment alone says nothing about time", () => {
  const quality = qualityOf([
    { at: "1970-01-01T00:00:10Z", scores: { exact: score(1) } },
    { at: "1970-01-01T00:00:20Z", scores: { exact: score(1), chrf: score(40) } },
  ]);
  expect(quality.map(({ name, times }) => [name, times.length])).toEqual([["exact", 2]]);
});
