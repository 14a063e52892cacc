import type { NodeRow } from "../live/fleet-state";
import type { NodeSort } from "./node-filter";

/** What rows are ordered by; a row that changes is another one. */
const ids = new WeakMap<NodeRow, string>();

/** The id with its numbers in equal length, so that n-9 comes before n-10. */
function idOf(row: NodeRow): string {
  const known = ids.get(row);
  if (known !== undefined) return known;
  const made = row.node_id.replace(/\d+/g, (digits) => digits.padStart(12, "0"));
  ids.set(row, made);
  return made;
}

const VALUES: Readonly<Record<NodeSort, (row: NodeRow) => string | number>> = {
  node_id: idOf,
  status: (row) => row.status,
  used: (row) => row.used,
  cell: (row) => row.cell,
};

/**
 * Nodes in order, those that are equal in the order of their ids. Each value is looked up once:
 * ten thousand rows are put in order twice a second, in a few milliseconds.
 */
export function orderedNodes(
  rows: readonly NodeRow[],
  sort: NodeSort,
  isDescending: boolean,
): NodeRow[] {
  const valueOf = VALUES[sort];
  const keyed = rows.map((row) => ({ row, value: valueOf(row), id: idOf(row) }));
  const way = isDescending ? -1 : 1;
  keyed.sort((one, other) => {
    if (one.value !== other.value) return one.value < other.value ? -way : way;
    if (one.id === other.id) return 0;
    return one.id < other.id ? -1 : 1;
  });
  return keyed.map(({ row }) => row);
}
