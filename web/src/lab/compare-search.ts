/** What is compared, as the address has it. */
export interface CompareSearch {
  baseline?: string;
  /** Ids of experiments, split by commas. */
  others?: string;
  /** The score whose biggest losses come first. */
  by?: string;
}

/** The comparison of an address; what makes no sense in it is left out. */
export function compareSearchOf(search: Readonly<Record<string, unknown>>): CompareSearch {
  const { baseline, others, by } = search;
  return {
    ...(typeof baseline === "string" && baseline !== "" && { baseline }),
    ...(typeof others === "string" && others !== "" && { others }),
    ...(typeof by === "string" && by !== "" && { by }),
  };
}

export function othersOf(search: CompareSearch): readonly string[] {
  return (search.others ?? "").split(",").filter((id) => id !== "" && id !== search.baseline);
}
