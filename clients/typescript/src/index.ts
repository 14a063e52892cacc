export { Session, type SessionEvents, type SessionOptions, type SessionState } from "./session.ts";
export type {
  AsrPartial,
  ErrorMessage,
  MissingResult,
  SchedulerMessage,
  TranslationResult,
} from "./messages.ts";
