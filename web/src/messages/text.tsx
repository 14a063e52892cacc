import { createContext, use, useCallback, useEffect, useMemo, useState, type ReactNode } from "react";

import { en } from "./en";
import { zh } from "./zh";

export type MessageKey = keyof typeof en;
export type Messages = Readonly<Record<MessageKey, string>>;

/**
 * A message in the reader's language. `{name}` in it is replaced by the value of that name, and
 * `{name:row|rows}` by the first word where that value is 1, and by the second one elsewhere.
 */
export type Text = (key: MessageKey, values?: Readonly<Record<string, string | number>>) => string;

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

const TABLES: Readonly<Record<Language, Messages>> = { en, zh };
const KEPT_AS = "dragoman.language";

interface Reading {
  language: Language;
  setLanguage: (language: Language) => void;
  text: Text;
}

const ReadingContext = createContext<Reading | null>(null);

export function textOf(messages: Messages): Text {
  return (key, values = {}) =>
    messages[key]
      .replace(/\{(\w+):([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, several: string) =>
        String(values[name]) === "1" ? one : several,
      )
      .replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** The language that the reader chose, or else the first one of the browser's that there is. */
export function firstLanguage(kept: string | null, preferred: readonly string[]): Language {
  for (const tag of [kept ?? "", ...preferred]) {
    const found = Object.keys(LANGUAGES).find((known) => known === tag.slice(0, 2).toLowerCase());
    if (found !== undefined) return found as Language;
  }
  return "en";
}

export function TextProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(() =>
    firstLanguage(localStorage.getItem(KEPT_AS), navigator.languages),
  );
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const choose = useCallback((chosen: Language) => {
    localStorage.setItem(KEPT_AS, chosen);
    setLanguage(chosen);
  }, []);
  const reading = useMemo(
    () => ({ language, setLanguage: choose, text: textOf(TABLES[language]) }),
    [language, choose],
  );
  return <ReadingContext value={reading}>{children}</ReadingContext>;
}

export function useReading(): Reading {
  const reading = use(ReadingContext);
  if (reading === null) throw new Error("useReading is called outside TextProvider");
  return reading;
}

/** The message of this key; where there is none, as for a state that is newer, the value itself. */
export function nameOf(text: Text, key: string, value: string): string {
  return key in en ? text(key as MessageKey) : value;
}

export function useText(): Text {
  return useReading().text;
}
