import type { Experiment, ResultRow } from "./types";

const OWN = [
  "status",
  "latency_ms",
  "tokens",
  "cost",
  "error_code",
  "item_id",
  "repetition",
] as const;

/** The fields that rows of an experiment can be filtered and sorted by, most useful first. */
export function fieldsOf(experiment: Experiment, row: ResultRow | undefined): readonly string[] {
  const names = scoreNames(experiment);
  return [
    ...names.map((name) => `score.${name}`),
    ...OWN,
    ...Object.keys(row?.input ?? {}).map((name) => `input.${name}`),
    ...Object.keys(row?.output ?? {}).map((name) => `output.${name}`),
    ...names.map((name) => `label.${name}`),
    ...names.map((name) => `annotation.${name}`),
  ];
}

/** The names of the scores that the experiment's evaluators give. */
export function scoreNames(experiment: Experiment): readonly string[] {
  return experiment.evaluators.map((one) => {
    const { name, kind } = one as Readonly<Record<string, unknown>>;
    return String(name ?? kind);
  });
}
