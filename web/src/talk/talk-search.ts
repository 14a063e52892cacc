/** How many people share the page, as its address has it. */
export interface TalkSearch {
  people?: 2;
}

export function talkSearchOf(search: Readonly<Record<string, unknown>>): TalkSearch {
  return search["people"] === 2 ? { people: 2 } : {};
}
