import type { AsrPartial, MissingResult, TranslationResult } from "@dragoman/client";

export interface Translation {
  text: string | null;
  /** Why there is none. */
  missing: string | null;
  totalMs: number | null;
  timings: Readonly<Record<string, number | null>>;
}

/** One utterance: what was said, and what it became in each language. */
export interface Line {
  id: string;
  /** Milliseconds since the conversation began. */
  atMs: number;
  said: string;
  /** Whether what was said may still change. */
  isPartial: boolean;
  translations: Readonly<Record<string, Translation>>;
}

export type Transcript = readonly Line[];

/** By what an utterance goes: texts and speech are numbered apart. */
export const lineId = (kind: "text" | "speech", run: number, index: number) =>
  `${kind}-${run}-${index}`;

function changed(lines: Transcript, id: string, atMs: number, change: (line: Line) => Line) {
  const known = lines.some((line) => line.id === id);
  const fresh: Line = { id, atMs, said: "", isPartial: true, translations: {} };
  const all = known ? lines : [...lines, fresh];
  return all.map((line) => (line.id === id ? change(line) : line));
}

export function withText(lines: Transcript, id: string, atMs: number, said: string): Transcript {
  return changed(lines, id, atMs, (line) => ({ ...line, said, isPartial: false }));
}

export function withPartial(lines: Transcript, id: string, atMs: number, partial: AsrPartial) {
  return changed(lines, id, atMs, (line) =>
    line.isPartial ? { ...line, said: partial.text } : line,
  );
}

export function withResult(
  lines: Transcript,
  id: string,
  atMs: number,
  result: TranslationResult | MissingResult,
): Transcript {
  return changed(lines, id, atMs, (line) => {
    const isMissing = result.type === "missing_result";
    const translation: Translation = isMissing
      ? { text: null, missing: result.reason, totalMs: null, timings: {} }
      : {
          text: result.text_translated ?? result.text_asr ?? "",
          missing: null,
          totalMs: result.scheduling.speech_end_to_result_ms ?? result.scheduling.total_ms,
          timings: result.timings ?? {},
        };
    const said = isMissing ? line.said : (result.text_asr ?? line.said);
    const translations = { ...line.translations, [result.tgt_lang ?? ""]: translation };
    return { ...line, said, isPartial: false, translations };
  });
}

/** The lines of two people, in the order in which they were said. */
export function merged(one: Transcript, other: Transcript): Transcript {
  return [...one, ...other].sort((line, next) => line.atMs - next.atMs);
}

export const TRANSCRIPT_FORMATS = ["txt", "srt", "json"] as const;
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number];

/** The conversation as a file. */
export function transcriptFile(lines: Transcript, format: TranscriptFormat): string {
  switch (format) {
    case "json":
      return JSON.stringify(lines, null, 2);
    case "txt":
      return lines.map((line) => [line.said, ...texts(line)].join("\n")).join("\n\n");
    case "srt":
      return lines
        .map((line, index) => {
          const end = lines[index + 1]?.atMs ?? line.atMs + LAST_LINE_MS;
          const times = `${srtTime(line.atMs)} --> ${srtTime(Math.max(end, line.atMs + 1))}`;
          return [index + 1, times, line.said, ...texts(line)].join("\n");
        })
        .join("\n\n");
  }
}

const LAST_LINE_MS = 3_000;

function texts(line: Line): string[] {
  return Object.values(line.translations).flatMap(({ text }) => (text === null ? [] : [text]));
}

function srtTime(ms: number): string {
  const part = (value: number, digits: number) => String(Math.floor(value)).padStart(digits, "0");
  const [hours, minutes, seconds] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60];
  return `${part(hours, 2)}:${part(minutes, 2)}:${part(seconds, 2)},${part(ms % 1000, 3)}`;
}
