/** Who finds the pauses in what a microphone hears. */
export type PauseFinder = "browser" | "server";

/** What the page's address says of a conversation; what it does not say is as usual. */
export interface TalkSearch {
  people?: 2;
  pauses?: "server";
  /** The language that is spoken; of two people, that of the near one. */
  from?: string;
  /** The languages to translate to, with commas between; the first is that of the far person. */
  to?: string;
}

export function talkSearchOf(search: Readonly<Record<string, unknown>>): TalkSearch {
  const { from, to } = search;
  return {
    ...(search["people"] === 2 && { people: 2 }),
    ...(search["pauses"] === "server" && { pauses: "server" }),
    ...(typeof from === "string" && { from }),
    ...(typeof to === "string" && { to }),
  };
}

/** The languages of a conversation; while they are being typed some are none yet. */
export interface TalkLanguages {
  from: string;
  to: readonly string[];
}

export function languagesOf({ from = "en", to = "es" }: TalkSearch): TalkLanguages {
  return { from, to: to.split(",").filter((tag) => tag !== "") };
}

export function searchOfLanguages({ from, to }: TalkLanguages): TalkSearch {
  return { from, to: to.join() };
}
