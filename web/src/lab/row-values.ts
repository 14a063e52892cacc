import type { Experiment, ResultRow } from "./types";

type Columns = Readonly<Record<string, unknown>>;

const MAIN = "output";

/** A value as text: text as it is, everything else as JSON. */
export function valueText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(value);
}

/** The output that is judged, or the first one. */
export function outputText({ output }: { output: Columns }): string {
  if (MAIN in output) return output[MAIN] === null ? "" : valueText(output[MAIN]);
  return valueText(Object.values(output)[0]);
}

/** The first text that went in; without one, everything. */
export function inputText({ input }: { input: Columns }): string {
  const found = Object.values(input).find((value) => typeof value === "string");
  return found === undefined ? valueText(input) : valueText(found);
}

/** The text that the output should have been, by the first evaluator that compares with one. */
export function referenceOf(experiment: Experiment, row: ResultRow): string | null {
  for (const evaluator of experiment.evaluators) {
    const column = (evaluator as Columns)["reference"];
    if (typeof column !== "string") continue;
    const value = row.input[experiment.mapping[column] ?? column];
    if (typeof value === "string") return value;
  }
  return null;
}
