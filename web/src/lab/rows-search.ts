/** Which rows a page shows and in what order, as its address has it. */
export interface RowsSearch {
  /** A filter in the language of the page. */
  filter?: string;
  sort?: string;
  desc?: boolean;
}

/** The same, and which turn of which repetition a row's page shows. */
export interface RowSearch extends RowsSearch {
  turn?: number;
  repetition?: number;
}

type Search = Readonly<Record<string, unknown>>;

/** The list of an address; what makes no sense in it is left out. */
export function rowsSearchOf(search: Search | RowsSearch): RowsSearch {
  const { filter, sort, desc } = search as Search;
  return {
    ...(typeof filter === "string" && filter.trim() !== "" && { filter }),
    ...(typeof sort === "string" && sort !== "" && { sort }),
    ...(desc === true && { desc }),
  };
}

export function rowSearchOf(search: Search | RowSearch): RowSearch {
  const { turn, repetition } = search as Search;
  return {
    ...rowsSearchOf(search),
    ...(isCount(turn) && turn > 0 && { turn }),
    ...(isCount(repetition) && repetition > 1 && { repetition }),
  };
}

/** The column that an experiment's page groups its scores by. */
export function groupSearchOf(search: Search): { group?: string } {
  const { group } = search;
  return typeof group === "string" && group !== "" ? { group } : {};
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
