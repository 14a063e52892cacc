import type { ErrorMessage } from "@dragoman/client";

import type { MessageKey, Text } from "../messages/text";
import { languageTitle } from "./languages";
import type { MicrophoneRefusal } from "./microphone";

/** Why something was not heard or not translated: the browser, or a code of the server. */
export type TalkProblem =
  | { microphone: MicrophoneRefusal }
  | {
      code: string;
      /** What the server says itself, in English. */
      said: string;
      source: string;
      target: string;
      /** Languages that are served and close to those that were asked for. */
      near: readonly string[];
    };

/** What a person can do about each code. */
const ADVICE: Readonly<Record<string, MessageKey>> = {
  PAIR_UNSUPPORTED: "talk_pair",
  UNSUPPORTED_FEATURE: "talk_feature",
  NO_CAPACITY: "talk_busy",
  NODE_OVERLOADED: "talk_busy",
  PREEMPTED: "talk_busy",
  NO_AVAILABLE_NODE: "talk_unready",
  MODEL_NOT_AVAILABLE: "talk_unready",
  NODE_UNAVAILABLE: "talk_failed",
  JOB_TIMEOUT: "talk_failed",
  JOB_CANCELLED: "talk_failed",
  ATTEMPTS_EXHAUSTED: "talk_failed",
  gap_timeout: "talk_failed",
  RATE_LIMITED: "talk_tooMuch",
  PAYLOAD_TOO_LARGE: "talk_tooMuch",
  SCHEDULER_DEPENDENCY_DOWN: "talk_dependency",
  SERVER_DRAINING: "talk_draining",
  UNAUTHORIZED: "talk_signedOut",
  FORBIDDEN: "talk_forbidden",
  INVALID_SESSION: "talk_ended",
  SESSION_CLOSED: "talk_ended",
  INVALID_MESSAGE: "talk_invalid",
};

/** The codes with which the server closes a connection for good. */
const CLOSES: Readonly<Record<number, string>> = {
  1000: "SESSION_CLOSED",
  1008: "SESSION_CLOSED",
  4400: "INVALID_MESSAGE",
  4401: "UNAUTHORIZED",
  4403: "FORBIDDEN",
  4409: "SESSION_CLOSED",
};

/** What the server refused in a conversation of these languages. */
export function refusalOf(
  error: ErrorMessage,
  srcLang: string,
  tgtLangs: readonly string[],
): TalkProblem {
  const { code, message, details, tgt_lang } = error;
  const near: unknown = details?.["near"];
  return {
    code,
    said: message,
    source: srcLang,
    target: tgt_lang ?? tgtLangs.join(", "),
    near: Array.isArray(near) ? near.map(String) : [],
  };
}

/** What it is when a session is closed for good. */
export function endOf(closeCode: number, said: string): TalkProblem {
  return { code: CLOSES[closeCode] ?? "", said, source: "", target: "", near: [] };
}

interface Told {
  advice: string;
  /** What to tell an operator: the code and the server's own sentence. */
  detail: string;
}

/** What happened and what to do, in the reader's language. */
export function toldOf(
  problem: TalkProblem,
  served: readonly string[],
  text: Text,
  reader: string,
): Told {
  if ("microphone" in problem) {
    return { advice: text(`microphone_${problem.microphone}`), detail: "" };
  }
  const { code, said, source, target, near } = problem;
  const titles = (tags: readonly string[]) =>
    tags.map((tag) => languageTitle(tag, reader)).join(", ");
  const key = ADVICE[code];
  const advice = text(key ?? "talk_other", {
    source: languageTitle(source, reader),
    target: titles(target.split(", ")),
  });
  const instead = near.length > 0 ? near : served;
  const isAboutLanguages = key === "talk_pair" && instead.length > 0;
  const languages = isAboutLanguages ? text("servedInstead", { languages: titles(instead) }) : "";
  return {
    advice: [advice, languages].filter((part) => part !== "").join(" "),
    detail: key === undefined ? [code, said].filter((part) => part !== "").join(": ") : code,
  };
}
