import type { Condition, Operator, Value } from "./filter-text";
import type { ResultRow } from "./types";

/** What a field holds: that decides how the reader's words for it are meant. */
export type Kind = "text" | "number" | "boolean";

/** What the fields hold, as far as it is known. */
export type Kinds = ReadonlyMap<string, Kind>;

export const WITHOUT_VALUE: readonly Operator[] = ["is_null", "not_null"];
const LISTS: readonly Operator[] = ["in", "not_in"];
const SEARCHES: readonly Operator[] = ["contains", "not_contains", "matches"];

const TEXTS = /^(status|item_id|error_code|text$|label\.)/;
const QUOTED = /^"(?:[^"\\]|\\.)*"$/u;
const LISTED = /\s*("(?:[^"\\]|\\.)*"|[^,]*)\s*(?:,|$)/uy;

/**
 * What the columns of these rows hold. A column with texts in it is one of texts: a number that is
 * written for it, such as 07, is meant as it is written.
 */
export function kindsIn(rows: readonly Pick<ResultRow, "input" | "output">[]): Kinds {
  const kinds = new Map<string, Kind>();
  for (const { input, output } of rows) {
    for (const [prefix, columns] of [["input.", input], ["output.", output]] as const) {
      for (const [name, value] of Object.entries(columns)) {
        const kind = typeof value;
        if (kind !== "string" && kind !== "number" && kind !== "boolean") continue;
        const field = prefix + name;
        if (kind === "string") kinds.set(field, "text");
        else if (!kinds.has(field)) kinds.set(field, kind);
      }
    }
  }
  return kinds;
}

/** The condition that a reader wrote in the fields of the form. */
export function conditionOf(
  field: string,
  op: Operator,
  written: string,
  kinds: Kinds,
): Condition {
  if (WITHOUT_VALUE.includes(op)) return { field, op };
  const kind = SEARCHES.includes(op) || TEXTS.test(field) ? "text" : kinds.get(field);
  if (!LISTS.includes(op)) return { field, op, value: valueOf(written, kind) };
  return { field, op, value: listed(written).map((one) => valueOf(one, kind)) };
}

function valueOf(written: string, kind: Kind | undefined): Value {
  const trimmed = written.trim();
  if (QUOTED.test(trimmed)) {
    try {
      return JSON.parse(trimmed) as string;
    } catch {
      return written;
    }
  }
  if (kind === "text") return written;
  if (kind === "boolean" && /^(true|false)$/.test(trimmed)) return trimmed === "true";
  const number = Number(trimmed);
  return trimmed !== "" && Number.isFinite(number) ? number : written;
}

/** The values between the commas; a comma in quotes is part of its value. */
function listed(written: string): string[] {
  const found: string[] = [];
  LISTED.lastIndex = 0;
  while (LISTED.lastIndex < written.length) {
    const value = LISTED.exec(written)?.[1];
    if (value === undefined) return written.split(",").map((one) => one.trim());
    found.push(value.trim());
  }
  return found;
}
