import type { Experiment, ListMessage } from "./types";

/** The tenant's latest experiments by id, the latest first. */
export type ExperimentList = ReadonlyMap<string, Experiment>;

/** The list after a message of the lab. */
export function listAfter(before: ExperimentList | null, message: ListMessage): ExperimentList {
  const known = new Map(message.reset ? [] : before);
  for (const id of message.gone) known.delete(id);
  for (const experiment of message.changed) known.set(experiment.experiment_id, experiment);
  const latestFirst = [...known.values()].sort(
    (one, other) => other.created_at.localeCompare(one.created_at),
  );
  return new Map(latestFirst.map((experiment) => [experiment.experiment_id, experiment]));
}
