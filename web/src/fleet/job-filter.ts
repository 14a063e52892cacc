import type { components } from "../api/schema";

type Job = components["schemas"]["Job"];
type Filtered = Pick<Job, "job_id" | "src_lang" | "tgt_lang" | "state" | "outcome" | "error" | "node_id">;

/** The jobs that every word is found in: its pair, state, outcome, error, node or id. */
export function filteredJobs<T extends Filtered>(jobs: readonly T[], written: string): readonly T[] {
  const words = written.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => {
    const told = [
      job.job_id,
      `${job.src_lang}:${job.tgt_lang}`,
      job.state,
      job.outcome ?? "",
      job.error?.code ?? "",
      job.node_id ?? "",
    ].map((value) => value.toLowerCase());
    return words.every((word) => told.some((value) => value.includes(word)));
  });
}
