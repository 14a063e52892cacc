import type { Formats } from "../app/formats";
import type { ScoreSummary } from "./types";

type Summarised = Pick<ScoreSummary, "mean" | "ci95">;

/** A score with its interval, such as `0.71 (0.66 – 0.76)`; a dash where there is none. */
export function scoreText(
  score: Summarised | undefined,
  format: (value: number) => string,
): string {
  if (score === undefined || score.mean === null) return "–";
  const mean = format(score.mean);
  const [low, high] = score.ci95 ?? [];
  if (low === undefined || high === undefined) return mean;
  return `${mean} (${format(low)} – ${format(high)})`;
}

/** A share as a percentage; a dash where it is of nothing. */
export function shareText(part: number, whole: number, formats: Formats): string {
  return whole === 0 ? "–" : formats.percent(part / whole);
}
