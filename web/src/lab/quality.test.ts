import { expect, test } from "vitest";

import { qualityOf } from "./quality";
import type { Run } from "./types";

const run = (ended_at: string | null, means: Record<string, number>): Run =>
  ({
    ended_at,
    scores: Object.fromEntries(
      Object.entries(means).map(([name, mean]) => [name, { count: 1, mean, ci95: null }]),
    ),
  }) as unknown as Run;

test("runs that ended are in the order of time, and a score that one lacks is missing there", () => {
  const quality = qualityOf([
    run(null, {}),
    run("1970-01-01T00:00:20Z", { exact: 0.5, chrf: 40 }),
    run("1970-01-01T00:00:10Z", { exact: 1 }),
  ]);
  expect(quality.times).toEqual([10, 20]);
  expect(quality.scores).toEqual([
    { name: "exact", means: [1, 0.5] },
    { name: "chrf", means: [null, 40] },
  ]);
});
