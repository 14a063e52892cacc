import type { components } from "../api/schema";

export type ConsoleMessage = components["schemas"]["ConsoleMessage"];
export type Topic = ConsoleMessage["type"];
export type MessageOf<T extends Topic> = Extract<ConsoleMessage, { type: T }>;

export type Overview = MessageOf<"overview">;
export type NodeRow = MessageOf<"nodes">["changed"][number];
export type PairRow = MessageOf<"pairs">["changed"][number];
export type InstanceRow = MessageOf<"instances">["items"][number];

/** What the console knows of the fleet, each part as of its last message. */
export interface FleetState {
  readonly overview: Overview | null;
  readonly nodes: ReadonlyMap<string, NodeRow> | null;
  readonly pairs: ReadonlyMap<string, PairRow> | null;
  /** Whether more pairs are served than these. */
  readonly arePairsCut: boolean;
  readonly sessions: MessageOf<"sessions"> | null;
  readonly instances: readonly InstanceRow[] | null;
  /** Where each topic stands; a socket that comes back goes on from there. */
  readonly cursors: Readonly<Partial<Record<Topic, string>>>;
}

export const NOTHING_KNOWN: FleetState = {
  overview: null,
  nodes: null,
  pairs: null,
  arePairsCut: false,
  sessions: null,
  instances: null,
  cursors: {},
};

/** The fleet after a message. */
export function told(state: FleetState, message: ConsoleMessage): FleetState {
  // Of a change in several messages only the last one says where the console stands.
  const complete = !("more" in message && message.more);
  const cursors = complete ? { ...state.cursors, [message.type]: message.cursor } : state.cursors;
  switch (message.type) {
    case "overview":
      return { ...state, cursors, overview: message };
    case "sessions":
      return { ...state, cursors, sessions: message };
    case "instances":
      return { ...state, cursors, instances: message.items };
    case "nodes":
      return { ...state, cursors, nodes: changed(state.nodes, message, (row) => row.node_id) };
    case "pairs":
      return {
        ...state,
        cursors,
        pairs: changed(state.pairs, message, (row) => row.pair),
        arePairsCut: message.cut,
      };
  }
}

function changed<Row>(
  before: ReadonlyMap<string, Row> | null,
  change: { reset: boolean; changed: readonly Row[]; gone: readonly string[] },
  keyOf: (row: Row) => string,
): ReadonlyMap<string, Row> {
  const rows = new Map(change.reset ? [] : before);
  for (const key of change.gone) rows.delete(key);
  for (const row of change.changed) rows.set(keyOf(row), row);
  return rows;
}
