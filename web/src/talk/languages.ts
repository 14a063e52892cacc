/** Language tags as sessions take them, such as `en`, `zh-TW` or `sr-Latn-RS`; `auto` is none. */
const TAG = /^(?!auto$)(?=.{2,35}$)[a-z]{2,8}(-[a-z0-9]{1,8})*$/i;

/** Whether a text is a language, and not the beginning of one. */
export function isLanguage(text: string): boolean {
  return TAG.test(text);
}

/** What is suggested to those who may not see what the fleet serves. */
export const COMMON_LANGUAGES: readonly string[] = [
  ...["ar", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr"],
  ...["uk", "vi", "zh"],
];

/** What a language is called in the reader's own; empty where it has no name. */
export function languageName(tag: string, reader: string): string {
  const names = new Intl.DisplayNames(reader, { type: "language", fallback: "none" });
  try {
    return names.of(tag) ?? "";
  } catch {
    // Sessions take more tags than browsers do.
    return "";
  }
}

/** The same with its tag, by which it is chosen. */
export function languageTitle(tag: string, reader: string): string {
  const name = languageName(tag, reader);
  return name === "" ? tag : `${name} (${tag})`;
}

/** The suggestions that what was typed may mean: the beginning of a tag, or a part of a name. */
export function suggestedFor(
  typed: string,
  suggestions: readonly string[],
  reader: string,
): readonly string[] {
  const wanted = typed.trim().toLowerCase();
  return suggestions.filter(
    (tag) =>
      tag.toLowerCase().startsWith(wanted) ||
      languageName(tag, reader).toLowerCase().includes(wanted),
  );
}

/** The tag that was typed, or that of the suggestion whose name was typed. */
export function tagOf(typed: string, suggestions: readonly string[], reader: string): string {
  const wanted = typed.trim();
  const isNamed = (tag: string) =>
    languageName(tag, reader).toLowerCase() === wanted.toLowerCase();
  return wanted === "" ? "" : (suggestions.find(isNamed) ?? wanted);
}
