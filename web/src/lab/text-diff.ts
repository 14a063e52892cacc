export type Piece = readonly ["same" | "removed" | "added", string];

/** Words and spaces beyond which texts are not compared: the time grows with their product. */
const MOST_WORDS = 2_000;

/**
 * What has to be removed from one text and added to it to have the other, word by word; null where
 * the texts are too long. Scripts that have no spaces are compared character by character.
 */
export function textDiff(before: string, after: string): readonly Piece[] | null {
  const from = wordsOf(before);
  const to = wordsOf(after);
  if (from.length > MOST_WORDS || to.length > MOST_WORDS) return null;
  const lengths = commonLengths(from, to);
  const pieces: [Piece[0], string][] = [];
  const add = (kind: Piece[0], word: string) => {
    const last = pieces[pieces.length - 1];
    if (last?.[0] === kind) last[1] += word;
    else pieces.push([kind, word]);
  };
  let [i, j] = [0, 0];
  while (i < from.length || j < to.length) {
    const [old, fresh] = [from[i], to[j]];
    if (old !== undefined && old === fresh) {
      add("same", old);
      i += 1;
      j += 1;
    } else if (old !== undefined && (fresh === undefined || at(lengths, i + 1, j) >= at(lengths, i, j + 1))) {
      add("removed", old);
      i += 1;
    } else if (fresh !== undefined) {
      add("added", fresh);
      j += 1;
    }
  }
  return pieces;
}

const WORD = /\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}\p{M}]+|./gsu;

function wordsOf(text: string): readonly string[] {
  return text.match(WORD) ?? [];
}

/** For each pair of places, how many words the rests of both texts have in common, in order. */
function commonLengths(from: readonly string[], to: readonly string[]): readonly Uint16Array[] {
  const rows = Array.from({ length: from.length + 1 }, () => new Uint16Array(to.length + 1));
  for (let i = from.length - 1; i >= 0; i -= 1) {
    const row = rows[i];
    for (let j = to.length - 1; row !== undefined && j >= 0; j -= 1) {
      row[j] =
        from[i] === to[j]
          ? at(rows, i + 1, j + 1) + 1
          : Math.max(at(rows, i + 1, j), at(rows, i, j + 1));
    }
  }
  return rows;
}

function at(rows: readonly Uint16Array[], i: number, j: number): number {
  return rows[i]?.[j] ?? 0;
}
