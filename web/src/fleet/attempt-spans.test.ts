import { expect, test } from "vitest";

import { attemptSpans, type Attempt } from "./attempt-spans";

const at = (second: number) => new Date(second * 1000).toISOString();

const attempt = (number: number, times: Attempt["at"]): Attempt => ({
  attempt: number,
  attempt_id: `a-${number}`,
  node_id: `n-${number}`,
  state: "FINISHED",
  at: times,
});

const times = (dispatched: number, accepted?: number, running?: number, finished?: number) => ({
  dispatched: at(dispatched),
  accepted: accepted === undefined ? null : at(accepted),
  running: running === undefined ? null : at(running),
  finished: finished === undefined ? null : at(finished),
});

test("attempts stand one after another on the axis, each cut into its stages", () => {
  const { lengthMs, rows } = attemptSpans(
    [attempt(1, times(10, 11, undefined, 15)), attempt(2, times(15, 16, 17, 20))],
    0,
  );
  expect(lengthMs).toBe(10_000);
  expect(rows[0]?.spans).toEqual([
    { stage: "waiting", from: 0, to: 0.1 },
    { stage: "accepted", from: 0.1, to: 0.5 },
  ]);
  expect(rows[1]?.spans.at(-1)).toEqual({ stage: "running", from: 0.7, to: 1 });
});

test("an attempt that goes on reaches until now", () => {
  const { rows } = attemptSpans([attempt(1, times(10, 12))], 20_000);
  expect(rows[0]?.spans.at(-1)).toEqual({ stage: "accepted", from: 0.2, to: 1 });
});
