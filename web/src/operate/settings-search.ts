/** Which settings a page shows, as its address has it. */
export interface SettingsSearch {
  q?: string;
  /** Only those that are not the default. */
  given?: boolean;
}

export function settingsSearchOf(search: Readonly<Record<string, unknown>>): SettingsSearch {
  const { q, given } = search;
  return {
    ...((typeof q === "string" || typeof q === "number") && q !== "" && { q: String(q) }),
    ...(given === true && { given }),
  };
}

interface Setting {
  name: string;
  meaning: string;
  source: string;
}

export function filteredSettings<S extends Setting>(
  settings: readonly S[],
  { q, given }: SettingsSearch,
): readonly S[] {
  const words = (q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter((setting) => {
    if (given && setting.source === "default") return false;
    const said = `${setting.name} ${setting.meaning} ${setting.source}`.toLowerCase();
    return words.every((word) => said.includes(word));
  });
}
