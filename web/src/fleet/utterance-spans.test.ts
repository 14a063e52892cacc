import { expect, test } from "vitest";

import { longestMs, utteranceSpans, type TimelineEntry } from "./utterance-spans";

const entry = (fields: Partial<TimelineEntry>): TimelineEntry => ({
  delivery_seq: 1,
  utterance_index: 0,
  tgt_lang: "es",
  job_id: "j-1",
  node_id: "n-1",
  instance_id: "i-1",
  reason: null,
  ended_at: "2026-01-01T00:00:00Z",
  queued_ms: 0,
  dispatch_ms: 0,
  node_ms: 0,
  total_ms: 0,
  attempts: 1,
  speech_end_to_result_ms: null,
  timings: null,
  ...fields,
});

test("an utterance's waits follow each other on the axis of the longest one", () => {
  const short = entry({ queued_ms: 10, dispatch_ms: 0, node_ms: 40, total_ms: 50 });
  const long = entry({ queued_ms: 0, dispatch_ms: 20, node_ms: 80, total_ms: 100 });
  const lengthMs = longestMs([short, long]);
  expect(lengthMs).toBe(100);
  expect(utteranceSpans(short, lengthMs)).toEqual([
    { wait: "queued", from: 0, to: 0.1 },
    { wait: "atNode", from: 0.1, to: 0.5 },
  ]);
  expect(utteranceSpans(long, lengthMs).at(-1)?.to).toBe(1);
});

test("an utterance without a result has no spans", () => {
  const missing = entry({
    queued_ms: null, dispatch_ms: null, node_ms: null, total_ms: null, reason: "NO_CAPACITY",
  });
  expect(longestMs([missing])).toBe(1);
  expect(utteranceSpans(missing, 1)).toEqual([]);
});
