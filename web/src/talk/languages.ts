/** Language tags as sessions take them, such as `en`, `zh-TW` or `sr-Latn-RS`; `auto` is none. */
const TAG = /^(?!auto$)(?=.{2,35}$)[a-z]{2,8}(-[a-z0-9]{1,8})*$/i;

/** Whether a text is a language, and not the beginning of one. */
export function isLanguage(text: string): boolean {
  return TAG.test(text);
}
