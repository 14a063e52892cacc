import type { Run, ScoreSummary } from "./types";

/** Scores as they were at a moment: at the end of a run, or of an hour. */
export interface Moment {
  /** As the API has times. */
  at: string;
  scores: Readonly<Record<string, ScoreSummary>>;
}

/** One score over time, as a chart takes it: lists of equal length, the earliest first. */
export interface Quality {
  name: string;
  /** In seconds since 1970. */
  times: readonly number[];
  means: readonly number[];
  /** The bounds of each mean; the mean itself where it has none. */
  lows: readonly number[];
  highs: readonly number[];
}

/** The ends of runs; one that has not ended, or scored nothing, tells nothing. */
export function runMoments(runs: readonly Run[]): Moment[] {
  return runs.flatMap(({ ended_at, scores }) =>
    ended_at !== null && Object.keys(scores).length > 0 ? [{ at: ended_at, scores }] : [],
  );
}

/** Each score that has more than one moment: one alone says nothing about time. */
export function qualityOf(moments: readonly Moment[]): Quality[] {
  const inOrder = [...moments].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
  const names = [...new Set(inOrder.flatMap(({ scores }) => Object.keys(scores)))];
  return names
    .map((name) => {
      const points = inOrder.flatMap(({ at, scores }) => {
        const score = scores[name];
        if (score === undefined || score.mean === null) return [];
        const [low = score.mean, high = score.mean] = score.ci95 ?? [];
        return [{ time: Date.parse(at) / 1000, mean: score.mean, low, high }];
      });
      return {
        name,
        times: points.map(({ time }) => time),
        means: points.map(({ mean }) => mean),
        lows: points.map(({ low }) => low),
        highs: points.map(({ high }) => high),
      };
    })
    .filter(({ times }) => times.length > 1);
}
