import type { components } from "../api/schema";

export type TimelineEntry = components["schemas"]["SessionTimeline"]["items"][number];
export type Wait = "queued" | "toNode" | "atNode";

/** A stretch of an utterance's time, as shares of the longest utterance's. */
export interface WaitSpan {
  wait: Wait;
  from: number;
  to: number;
}

/** How long the longest of the utterances took; 1 where none has a result. */
export function longestMs(entries: readonly TimelineEntry[]): number {
  return Math.max(1, ...entries.map(({ total_ms }) => total_ms ?? 0));
}

/** Where an utterance's time went, from the end of its input on. */
export function utteranceSpans(entry: TimelineEntry, lengthMs: number): readonly WaitSpan[] {
  const parts: [Wait, number | null][] = [
    ["queued", entry.queued_ms],
    ["toNode", entry.dispatch_ms],
    ["atNode", entry.node_ms],
  ];
  let at = 0;
  return parts.flatMap(([wait, ms]) => {
    if (ms === null || ms <= 0) return [];
    const from = at / lengthMs;
    at += ms;
    return [{ wait, from, to: at / lengthMs }];
  });
}
