import type { components } from "../api/schema";

export type History = components["schemas"]["History"];
export type MinuteSeries = History["total"];

/** What an hour comes to. */
export interface HourSum {
  jobs: number;
  failed: number;
  refused: number;
  /** Over all its jobs; null without any. */
  meanMs: number | null;
}

export function hourSum(series: MinuteSeries): HourSum {
  const sum = (values: readonly number[]) => values.reduce((whole, value) => whole + value, 0);
  const jobs = sum(series.jobs);
  const totalMs = sum(
    series.jobs.map((count, minute) => count * (series.mean_ms[minute] ?? 0)),
  );
  return {
    jobs,
    failed: sum(series.failed),
    refused: sum(series.refused),
    meanMs: jobs === 0 ? null : totalMs / jobs,
  };
}

/** When each of the sixty minutes began, in seconds since 1970. */
export function minuteTimes(beganAt: string): number[] {
  const first = Date.parse(beganAt) / 1000;
  return Array.from({ length: 60 }, (_, minute) => first + 60 * minute);
}
