/** The messages of `/ws/session` as `dragoman.json.v1` writes them: bytes are base64. */

export interface SessionInitAck {
  type: "session_init_ack";
  session_id: string;
  resume_token: string;
  resumed: boolean;
  next_chunk_seq: number;
  next_utterance_index: number;
  heartbeat_interval_ms: number;
}

export interface TranslationResult {
  type: "translation_result";
  delivery_seq: number;
  utterance_index: number;
  tgt_lang: string;
  job_id: string;
  text_asr?: string | null;
  text_translated?: string | null;
  src_lang_detected?: string | null;
  tts_audio?: string | null;
  tts_format?: string | null;
  node_id?: string | null;
  timings?: Readonly<Record<string, number | null>> | null;
  scheduling: {
    queued_ms: number;
    dispatch_ms: number;
    node_ms: number;
    total_ms: number;
    speech_end_to_result_ms?: number | null;
    attempts: number;
  };
}

export interface MissingResult {
  type: "missing_result";
  delivery_seq: number;
  utterance_index: number;
  tgt_lang?: string | null;
  reason: string;
}

export interface AsrPartial {
  type: "asr_partial";
  utterance_index: number;
  text: string;
  is_final: boolean;
}

export interface Backpressure {
  type: "backpressure";
  action: "slow_down" | "pause" | "resume";
}

export interface ErrorMessage {
  type: "error";
  code: string;
  message: string;
  utterance_index?: number | null;
}

export interface ServerHeartbeat {
  type: "server_heartbeat";
  next_chunk_seq: number;
}

export interface SessionCloseAck {
  type: "session_close_ack";
}

export type SchedulerMessage =
  | SessionInitAck
  | TranslationResult
  | MissingResult
  | AsrPartial
  | Backpressure
  | ErrorMessage
  | ServerHeartbeat
  | SessionCloseAck;

export interface AudioChunk {
  type: "audio_chunk";
  seq: number;
  is_final: boolean;
  payload: string;
}

export interface Utterance {
  type: "utterance";
  utterance_index: number;
  text: string;
  pipeline?: Readonly<Record<string, boolean>>;
}
