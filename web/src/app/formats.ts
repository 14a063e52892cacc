import { useMemo } from "react";

import { useReading } from "../messages/text";

/** Numbers and times as the reader's language and zone write them. */
export interface Formats {
  number: (value: number) => string;
  milliseconds: (value: number) => string;
  time: (rfc3339: string) => string;
  /** A score or a difference, to four figures. */
  score: (value: number) => string;
  percent: (share: number) => string;
  /** A time span in the unit that fits it. */
  seconds: (value: number) => string;
  /** The language and region whose habits these are. */
  locale: string;
}

/** The chosen language as the reader's own region writes it, where the browser names one. */
export function localeOf(language: string, preferred: readonly string[]): string {
  return preferred.find((tag) => tag.toLowerCase().startsWith(`${language}-`)) ?? language;
}

/** Units of time: name, seconds, and from how many seconds on a span is told in it. */
const SPANS: readonly (readonly [string, number, number])[] = [
  ["hour", 3600, 7200],
  ["minute", 60, 120],
  ["second", 1, 0],
];

export function formatsOf(language: string): Formats {
  const number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  const precise = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
  const time = new Intl.DateTimeFormat(language, {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });
  const score = new Intl.NumberFormat(language, { maximumSignificantDigits: 4 });
  const percent = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
  return {
    locale: language,
    number: (value) => number.format(value),
    milliseconds: (value) =>
      value >= 1000 ? `${precise.format(value / 1000)} s` : `${precise.format(value)} ms`,
    time: (rfc3339) => time.format(new Date(rfc3339)),
    score: (value) => score.format(value),
    percent: (share) => percent.format(share),
    seconds: (value) => {
      const [unit, inSeconds] = SPANS.find(([, , from]) => value >= from) ?? ["second", 1];
      return new Intl.NumberFormat(language, {
        style: "unit",
        unit,
        unitDisplay: "short",
        maximumFractionDigits: 0,
      }).format(value / inSeconds);
    },
  };
}

export function useFormats(): Formats {
  const { language } = useReading();
  return useMemo(() => formatsOf(localeOf(language, navigator.languages)), [language]);
}
