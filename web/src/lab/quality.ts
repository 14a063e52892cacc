import type { Run } from "./types";

/** The means of each score at the ends of runs, the earliest first. */
export interface Quality {
  /** In seconds since 1970. */
  times: readonly number[];
  scores: readonly { name: string; means: readonly (number | null)[] }[];
}

/** What runs tell of quality over time; a run that has not ended tells nothing. */
export function qualityOf(runs: readonly Run[]): Quality {
  const ended = runs
    .flatMap((run) =>
      run.ended_at !== null && Object.keys(run.scores).length > 0
        ? [{ at: Date.parse(run.ended_at) / 1000, scores: run.scores }]
        : [],
    )
    .sort((one, other) => one.at - other.at);
  const names = [...new Set(ended.flatMap((run) => Object.keys(run.scores)))];
  return {
    times: ended.map((run) => run.at),
    scores: names.map((name) => ({
      name,
      means: ended.map((run) => run.scores[name]?.mean ?? null),
    })),
  };
}
