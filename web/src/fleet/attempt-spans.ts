import type { components } from "../api/schema";

export type Attempt = components["schemas"]["Job"]["attempts"][number];
export type Stage = "waiting" | "accepted" | "running";

/** A stretch of an attempt's time, as shares of the whole axis. */
export interface Span {
  stage: Stage;
  from: number;
  to: number;
}

export interface AttemptSpans {
  attempt: Attempt;
  spans: readonly Span[];
}

/** Attempts on one time axis, which reaches from the first dispatch to the last thing known. */
export function attemptSpans(attempts: readonly Attempt[], nowMs: number): {
  lengthMs: number;
  rows: readonly AttemptSpans[];
} {
  const begins = attempts.flatMap(({ at }) => (at.dispatched ? [Date.parse(at.dispatched)] : []));
  const first = Math.min(...begins);
  const ends = attempts.map(({ at }) => (at.finished ? Date.parse(at.finished) : nowMs));
  const lengthMs = Math.max(1, Math.max(...ends) - first);
  const share = (time: number) => Math.min(1, Math.max(0, (time - first) / lengthMs));
  const rows = attempts.map((attempt) => {
    const { dispatched, accepted, running, finished } = attempt.at;
    const end = finished ? Date.parse(finished) : nowMs;
    const starts: [Stage, string | null | undefined][] = [
      ["waiting", dispatched],
      ["accepted", accepted],
      ["running", running],
    ];
    const known = starts.flatMap(([stage, at]) => (at ? [{ stage, time: Date.parse(at) }] : []));
    const spans = known.map(({ stage, time }, index) => ({
      stage,
      from: share(time),
      to: share(known[index + 1]?.time ?? end),
    }));
    return { attempt, spans };
  });
  return { lengthMs, rows };
}
