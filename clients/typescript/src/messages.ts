/**
 * The messages of `/ws/session` as `dragoman.json.v1` writes them: bytes are base64. Their types are
 * generated from the protocol's own schema, by `make web-types`.
 */

import type { components } from "./protocol.ts";

type Schemas = components["schemas"];

export type SchedulerMessage = Schemas["SchedulerToClient"];
export type ClientMessage = Schemas["ClientToScheduler"];

export type SessionInit = Schemas["SessionInit"];
export type SessionInitAck = Schemas["SessionInitAck"];
export type TranslationResult = Schemas["TranslationResult"];
export type MissingResult = Schemas["MissingResult"];
export type AsrPartial = Schemas["AsrPartial"];
export type ErrorMessage = Schemas["Error"];
export type AudioChunk = Schemas["AudioChunk"];
export type Utterance = Schemas["Utterance"];
