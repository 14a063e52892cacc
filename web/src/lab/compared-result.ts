/** What became of a row in the runs that are compared with the baseline. */
export type Result = "loss" | "tie" | "win" | "unknown";

interface Gains {
  others: readonly ({ gain?: number | null } | null)[];
}

/** By the run that fared worst, by which rows are sorted; null of no row. */
export function resultOf(row: Gains | undefined): Result | null {
  if (row === undefined) return null;
  const gains = row.others.flatMap((answer) => answer?.gain ?? []);
  if (gains.length === 0) return "unknown";
  const worst = Math.min(...gains);
  if (worst === 0) return "tie";
  return worst < 0 ? "loss" : "win";
}
