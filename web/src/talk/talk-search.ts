/** Who finds the pauses in what a microphone hears. */
export type PauseFinder = "browser" | "server";

/** How many people share the page, and who finds their pauses, as its address has it. */
export interface TalkSearch {
  people?: 2;
  pauses?: "server";
}

export function talkSearchOf(search: Readonly<Record<string, unknown>>): TalkSearch {
  return {
    ...(search["people"] === 2 && { people: 2 }),
    ...(search["pauses"] === "server" && { pauses: "server" }),
  };
}
