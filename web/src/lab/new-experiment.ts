import type { components } from "../api/schema";
import { settingsGiven, settingsOf } from "./settings-schema";

export type Kind = components["schemas"]["KindPage"]["items"][number];

/** A target or an evaluator while it is being described. */
export interface Chosen {
  /** Tells evaluators of one kind apart while they have no names. */
  key: number;
  kind: string;
  written: Readonly<Record<string, string>>;
}

/** An experiment while it is being described. */
export interface Draft {
  name: string;
  versionId: string;
  target: Chosen;
  evaluators: readonly Chosen[];
  concurrency: string;
  /** The most it may use up; empty: as much as the tenant may. */
  tokens: string;
  cost: string;
  /** When it runs again by itself; empty: never. */
  cron: string;
  timezone: string;
}

export const EMPTY_DRAFT: Draft = {
  name: "",
  versionId: "",
  target: { key: 0, kind: "", written: {} },
  evaluators: [],
  concurrency: "",
  tokens: "",
  cost: "",
  cron: "",
  // A person who writes a time of day means the clock on the wall.
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
};

/** The name of a score, which an evaluator of any kind may have. */
export const SCORE_NAME = {
  name: "name",
  kind: "text",
  choices: [],
  isRequired: false,
  fallback: "",
} as const;

export interface Order {
  name: string;
  dataset_version_id: string;
  target: Record<string, unknown>;
  evaluators: Record<string, unknown>[];
  concurrency?: number;
  budget?: { tokens?: number; cost?: number };
  cron?: string;
  cron_timezone?: string;
}

/** What the API is asked for; throws `SettingProblem` where a setting cannot be read. */
export function orderOf(draft: Draft, targets: readonly Kind[], evaluators: readonly Kind[]): Order {
  const cron = draft.cron.trim();
  const budget = {
    ...(draft.tokens !== "" && { tokens: Number(draft.tokens) }),
    ...(draft.cost !== "" && { cost: Number(draft.cost) }),
  };
  return {
    name: draft.name.trim(),
    dataset_version_id: draft.versionId,
    target: described(draft.target, targets),
    evaluators: draft.evaluators.map((chosen) => {
      const name = (chosen.written["name"] ?? "").trim();
      return { ...(name !== "" && { name }), ...described(chosen, evaluators) };
    }),
    ...(draft.concurrency !== "" && { concurrency: Number(draft.concurrency) }),
    ...(Object.keys(budget).length > 0 && { budget }),
    ...(cron !== "" && { cron, cron_timezone: draft.timezone.trim() }),
  };
}

function described(chosen: Chosen, kinds: readonly Kind[]): Record<string, unknown> {
  const schema = kinds.find(({ kind }) => kind === chosen.kind)?.schema ?? {};
  return { kind: chosen.kind, ...settingsGiven(settingsOf(schema), chosen.written) };
}
