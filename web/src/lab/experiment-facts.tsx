import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { Facts } from "../app/facts";
import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { datasetQuery } from "./dataset-query";
import { RunStatus } from "./run-status";
import type { Experiment } from "./types";

/** What the experiment is, and how it stands. */
export function ExperimentFacts({ experiment }: { experiment: Experiment }) {
  const text = useText();
  const formats = useFormats();
  const { stats, dataset_id } = experiment;
  const { tokens = null, cost = null } = experiment.budget;
  const dataset = useQuery({ ...datasetQuery(dataset_id ?? ""), enabled: dataset_id !== null });
  const moment = (at: string | null) => (at === null ? null : formats.time(at));
  return (
    <Facts
      rows={[
        [text("state"), <RunStatus key="state" status={experiment.status} />],
        ...(experiment.reason === null
          ? []
          : ([[text("reason"), experiment.reason]] as const)),
        ...(experiment.description === ""
          ? []
          : ([[text("description"), experiment.description]] as const)),
        [
          text("dataset"),
          dataset_id === null ? null : (
            <Anchor
              key="dataset"
              size="sm"
              renderRoot={(props) => (
                <Link to="/lab/datasets/$datasetId" params={{ datasetId: dataset_id }} {...props} />
              )}
            >
              {dataset.data?.name ?? dataset_id}
            </Anchor>
          ),
        ],
        [text("target"), settingsText(experiment.target)],
        [text("evaluators"), experiment.evaluators.map(settingsText).join("; ")],
        [
          text("itemsByState"),
          text("itemsByStateValue", {
            success: formats.number(stats.success),
            fail: formats.number(stats.fail),
            terminated: formats.number(stats.terminated),
            left: formats.number(stats.queueing + stats.processing),
            items: formats.number(experiment.items),
          }),
        ],
        [
          text("used"),
          text("usedValue", {
            tokens: formats.number(stats.tokens),
            cost: formats.score(stats.cost),
          }),
        ],
        ...(tokens === null && cost === null
          ? []
          : ([
              [
                text("budget"),
                text("usedValue", {
                  tokens: tokens === null ? "∞" : formats.number(tokens),
                  cost: cost === null ? "∞" : formats.score(cost),
                }),
              ],
            ] as const)),
        ...(experiment.cron === null
          ? []
          : ([[text("cron"), `${experiment.cron} (${experiment.cron_timezone})`]] as const)),
        [text("started"), moment(experiment.started_at)],
        [text("ended"), moment(experiment.ended_at)],
        ...(experiment.next_run_at === null
          ? []
          : ([[text("nextRun"), moment(experiment.next_run_at)]] as const)),
      ]}
    />
  );
}

/** A kind with its settings in one line. */
function settingsText({ kind, ...settings }: Readonly<Record<string, unknown>>): string {
  const told = Object.entries(settings)
    .filter(([name, value]) => value !== null && value !== "" && !isImplied(name, value, kind))
    .map(([name, value]) => `${name} = ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [String(kind), ...(told.length > 0 ? [`(${told.join(", ")})`] : [])].join(" ");
}

/** Whether the setting is what it would be without being set: every score has a name and a weight. */
function isImplied(name: string, value: unknown, kind: unknown): boolean {
  return (name === "name" && value === kind) || (name === "weight" && value === 1);
}
