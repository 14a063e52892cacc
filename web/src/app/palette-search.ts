/** Something that the palette finds by its name. */
export interface Found {
  id: string;
  label: string;
}

/** No more than a reader looks through. */
const MOST = 20;

/** Those whose name has every word of the query; names that begin with it come first. */
export function matching<T extends Found>(all: readonly T[], query: string): readonly T[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return all.slice(0, MOST);
  const begin = words.join(" ");
  const found = all.filter(({ label }) => {
    const name = label.toLowerCase();
    return words.every((word) => name.includes(word));
  });
  const isFirst = ({ label }: T) => label.toLowerCase().startsWith(begin);
  return [...found.filter(isFirst), ...found.filter((one) => !isFirst(one))].slice(0, MOST);
}
