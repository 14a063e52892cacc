import type { components } from "../api/schema";

type Schemas = components["schemas"];

/** A schema as the client answers with it: pairs of numbers are lists. */
type Answered<T> = T extends readonly (infer One)[]
  ? Answered<One>[]
  : T extends object
    ? { [Name in keyof T]: Answered<T[Name]> }
    : T;

export type Experiment = Answered<Schemas["Experiment"]>;
export type RunPage = Answered<Schemas["RunPage"]>;
export type HourPage = Answered<Schemas["HourPage"]>;
export type Run = Answered<Schemas["RunPage"]["items"][number]>;
export type ScoreSummary = Experiment["scores"][string];
type Every = Answered<Schemas["Aggregates"]>;
type OfGroup = NonNullable<Every["groups"]>[number];
/** The server leaves out what is as it is without saying so. */
type LeftOut<T, Name extends keyof T> = Omit<T, Name> & Partial<Pick<T, Name>>;
export type Aggregates = LeftOut<Omit<Every, "groups">, "failures" | "more_groups"> & {
  groups?: (Omit<OfGroup, "aggregates"> & {
    aggregates: LeftOut<OfGroup["aggregates"], "failures">;
  })[];
};
export type Aggregate = Every["latency_ms"];
export type Outcomes = NonNullable<Aggregate["outcomes"]>;
export type ResultRow = Answered<Schemas["ResultPage"]["items"][number]>;
export type ScoreCell = ResultRow["scores"][string];
export type Dataset = Answered<Schemas["Dataset"]>;
export type Item = Answered<Schemas["ItemPage"]["items"][number]>;
export type Comparison = Answered<Schemas["Comparison"]>;
export type Rehearsal = Answered<Schemas["Rehearsal"]>;
export type ExperimentMessage = Answered<Schemas["ExperimentMessage"]>;
export type ListMessage = Pick<Schemas["ExperimentListMessage"], "type" | "reset" | "gone"> & {
  changed: Experiment[];
};

export const RUN_STATES = [
  "pending",
  "processing",
  "draining",
  "terminating",
  "success",
  "failed",
  "terminated",
] as const;
export type RunState = (typeof RUN_STATES)[number];

const ENDED: readonly string[] = ["success", "failed", "terminated"];

/** Whether the latest run of the experiment is over. */
export function hasEnded(status: string): boolean {
  return ENDED.includes(status);
}

/** Whether a run is under way; an experiment without a run is pending and waits for a user. */
export function isRunning(experiment: Pick<Experiment, "run_id" | "status">): boolean {
  return experiment.run_id !== null && !hasEnded(experiment.status);
}
