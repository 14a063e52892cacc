/** A piece of a line: text as it is, code, or bold. */
export interface Piece {
  kind: "plain" | "code" | "bold";
  text: string;
}

/** A paragraph or an item of a list. */
export interface RunbookBlock {
  isItem: boolean;
  pieces: readonly Piece[];
}

/** The entries of the runbook, each by the name of its alert. */
export function runbookEntries(markdown: string): ReadonlyMap<string, readonly RunbookBlock[]> {
  const entries = new Map<string, readonly RunbookBlock[]>();
  for (const section of markdown.split(/^### /m).slice(1)) {
    const [name = "", ...rest] = (section.split(/^## /m)[0] ?? "").split("\n");
    entries.set(name.trim(), blocksOf(rest));
  }
  return entries;
}

function blocksOf(lines: readonly string[]): readonly RunbookBlock[] {
  const blocks: { isItem: boolean; text: string }[] = [];
  let isOpen = false;
  for (const line of lines) {
    const said = line.trim();
    const isItem = line.startsWith("- ");
    const last = blocks.at(-1);
    if (said !== "" && (isItem || !isOpen || last === undefined)) {
      blocks.push({ isItem, text: isItem ? said.slice(2) : said });
    } else if (said !== "" && last !== undefined) {
      last.text += ` ${said}`;
    }
    isOpen = said !== "";
  }
  return blocks.map(({ isItem, text }) => ({ isItem, pieces: piecesOf(text) }));
}

/** Links become their text: this page is all there is of the documents. */
export function piecesOf(text: string): readonly Piece[] {
  return text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
    .filter(Boolean)
    .map((part): Piece => {
      if (part.startsWith("`")) return { kind: "code", text: part.slice(1, -1) };
      if (part.startsWith("**")) return { kind: "bold", text: part.slice(2, -2) };
      return { kind: "plain", text: part };
    });
}
