import type {
  AsrPartial,
  AudioChunk,
  ErrorMessage,
  MissingResult,
  SchedulerMessage,
  SessionInit,
  SessionInitAck,
  TranslationResult,
  Utterance,
} from "./messages.ts";

export type SessionState = "connecting" | "live" | "resuming" | "closed";

export interface SessionOptions {
  /** The server, such as `wss://host`. */
  url: string;
  srcLang: string;
  tgtLangs: readonly string[];
  /** A key, where the server asks for one and no cookie stands for it. */
  token?: string;
  /**
   * Who finds the ends of utterances in audio: the client, which marks them (`off`), or the server
   * with one of its detectors. Left out: as the server's settings say.
   */
  vad?: SessionInit["vad"];
}

export interface SessionEvents {
  onState?: (state: SessionState) => void;
  onPartial?: (partial: AsrPartial) => void;
  /** Results come in order, each once, also across lost connections. */
  onResult?: (result: TranslationResult | MissingResult) => void;
  onError?: (error: ErrorMessage) => void;
  /** A connection was lost, and is opened again. 1001: the server is shutting down. */
  onLost?: (code: number, reason: string) => void;
  /**
   * The session is over: closed here, or the server will not take it up again, and closed the
   * connection with this code.
   */
  onEnd?: (reason: string, code: number | null) => void;
}

const SUB_PROTOCOL = "dragoman.json.v1";
const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5_000;

/** Closes after which connecting again would meet the same answer. */
const FINAL_CODES = new Set([1000, 1008, 4400, 4401, 4403, 4409]);

/**
 * One session of a server. It keeps what the server has not stored yet, so that a connection that
 * breaks, or a server that is started again, costs a delay and no word.
 *
 * A session takes either audio or whole texts, never both: their utterances are numbered by the
 * scheduler and by the client.
 */
export class Session {
  private readonly options: SessionOptions;
  private readonly events: SessionEvents;
  private socket: WebSocket | null = null;
  private current: SessionState = "connecting";
  private resumeToken: string | null = null;
  private lastDeliverySeq = 0;
  private nextChunkSeq = 0;
  private nextUtteranceIndex = 0;
  private chunks: AudioChunk[] = [];
  private utterances: Utterance[] = [];
  /** Utterances before the session that the server knows now: it numbers from 0 when it begins. */
  private indexBase = 0;
  private heardUpTo = -1;
  /** How many targets each utterance that was sent as text has been answered for. */
  private readonly answers = new Map<number, number>();
  private heartbeat: ReturnType<typeof setInterval> | undefined;
  private reconnecting: ReturnType<typeof setTimeout> | undefined;
  private pauseMs = FIRST_PAUSE_MS;

  constructor(options: SessionOptions, events: SessionEvents = {}) {
    this.options = options;
    this.events = events;
    this.connect();
  }

  get state(): SessionState {
    return this.current;
  }

  /** Send a piece of speech: 16-bit samples at 16 kHz. The last piece of an utterance is final. */
  sendAudio(samples: Int16Array<ArrayBuffer>, isFinal: boolean): void {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    const chunk: AudioChunk = {
      type: "audio_chunk",
      seq: this.nextChunkSeq++,
      is_final: isFinal,
      payload: base64Of(bytes),
    };
    this.chunks.push(chunk);
    // Before the server has acknowledged the session, what is kept is sent with it.
    if (this.current === "live") this.transmit(chunk);
  }

  /** Send a text to translate, and to speak where asked; returns its index. */
  say(text: string, { speech }: { speech: boolean }): number {
    const utterance: Utterance = {
      type: "utterance",
      utterance_index: this.nextUtteranceIndex++,
      text,
      ...(speech && { pipeline: { use_asr: false, use_nmt: true, use_tts: true } }),
    };
    this.utterances.push(utterance);
    if (this.current === "live") this.transmitUtterance(utterance);
    return utterance.utterance_index;
  }

  /** End the session; the server cancels what it has not answered. */
  close(): void {
    const socket = this.socket;
    this.end("closed by the client", null);
    if (socket?.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ type: "session_close" }));
    }
    socket?.close();
  }

  private connect(): void {
    const address = new URL("/ws/session", this.options.url);
    if (this.options.token !== undefined) address.searchParams.set("token", this.options.token);
    const socket = new WebSocket(address, SUB_PROTOCOL);
    this.socket = socket;
    socket.onopen = () => {
      socket.send(JSON.stringify(this.init()));
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      if (this.socket === socket) this.hear(JSON.parse(event.data) as SchedulerMessage);
    };
    socket.onclose = (event) => {
      if (this.socket === socket) this.lost(event);
    };
  }

  private init() {
    const { srcLang, tgtLangs, vad } = this.options;
    return {
      type: "session_init",
      src_lang: srcLang,
      tgt_langs: tgtLangs,
      audio_format: "pcm16",
      sample_rate: 16_000,
      last_delivery_seq: this.lastDeliverySeq,
      ...(vad !== undefined && { vad }),
      ...(this.resumeToken !== null && { resume_token: this.resumeToken }),
    };
  }

  private hear(message: SchedulerMessage): void {
    switch (message.type) {
      case "session_init_ack":
        this.opened(message);
        break;
      case "translation_result":
      case "missing_result":
        this.delivered(message);
        break;
      case "asr_partial":
        this.events.onPartial?.(this.renumbered(message));
        break;
      case "server_heartbeat":
        this.forgetChunksBelow(message.next_chunk_seq);
        break;
      case "error":
        this.events.onError?.(message);
        break;
      case "backpressure":
        // Speech and typing cannot be slowed down; a session that has too much is told by an error.
        break;
      case "session_close_ack":
      case "ui_event":
        break;
    }
  }

  private opened(ack: SessionInitAck): void {
    this.pauseMs = FIRST_PAUSE_MS;
    this.resumeToken = ack.resume_token;
    if (ack.resumed) {
      this.forgetChunksBelow(ack.next_chunk_seq);
      this.utterances = this.utterances.filter(
        ({ utterance_index }) => utterance_index - this.indexBase >= ack.next_utterance_index,
      );
    } else {
      this.beginAnew();
    }
    for (const chunk of this.chunks) this.transmit(chunk);
    for (const utterance of this.utterances) this.transmitUtterance(utterance);
    clearInterval(this.heartbeat);
    this.heartbeat = setInterval(() => {
      this.transmit({ type: "client_heartbeat", last_delivery_seq: this.lastDeliverySeq });
    }, ack.heartbeat_interval_ms);
    this.become("live");
  }

  /** The server knows nothing of this session: what it never answered is said again. */
  private beginAnew(): void {
    this.lastDeliverySeq = 0;
    this.answers.clear();
    this.chunks = this.chunks.map((chunk, seq) => ({ ...chunk, seq }));
    this.nextChunkSeq = this.chunks.length;
    this.indexBase =
      this.nextUtteranceIndex > 0
        ? (this.utterances[0]?.utterance_index ?? this.nextUtteranceIndex)
        : this.heardUpTo + 1;
  }

  /** A message with the index that utterances have had here since the session was made. */
  private renumbered<M extends { utterance_index: number }>(message: M): M {
    const index = message.utterance_index + this.indexBase;
    this.heardUpTo = Math.max(this.heardUpTo, index);
    return { ...message, utterance_index: index };
  }

  private transmitUtterance(utterance: Utterance): void {
    const utterance_index = utterance.utterance_index - this.indexBase;
    this.transmit({ ...utterance, utterance_index });
  }

  private delivered(message: TranslationResult | MissingResult): void {
    if (message.delivery_seq <= this.lastDeliverySeq) return;
    this.lastDeliverySeq = message.delivery_seq;
    const result = this.renumbered(message);
    this.countAnswer(result.utterance_index);
    this.events.onResult?.(result);
    this.transmit({ type: "client_heartbeat", last_delivery_seq: this.lastDeliverySeq });
  }

  private countAnswer(index: number): void {
    const count = (this.answers.get(index) ?? 0) + 1;
    this.answers.set(index, count);
    if (count < this.options.tgtLangs.length) return;
    this.answers.delete(index);
    this.utterances = this.utterances.filter((utterance) => utterance.utterance_index !== index);
  }

  private forgetChunksBelow(seq: number): void {
    this.chunks = this.chunks.filter((chunk) => chunk.seq >= seq);
  }

  private lost(event: CloseEvent): void {
    clearInterval(this.heartbeat);
    this.socket = null;
    if (FINAL_CODES.has(event.code)) {
      this.end(event.reason || `the server closed the connection (${event.code})`, event.code);
      return;
    }
    this.events.onLost?.(event.code, event.reason);
    this.become("resuming");
    this.reconnecting = setTimeout(() => {
      this.connect();
    }, this.pauseMs);
    this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
  }

  private end(reason: string, code: number | null): void {
    if (this.current === "closed") return;
    clearInterval(this.heartbeat);
    clearTimeout(this.reconnecting);
    this.socket = null;
    this.become("closed");
    this.events.onEnd?.(reason, code);
  }

  private become(state: SessionState): void {
    if (state === this.current) return;
    this.current = state;
    this.events.onState?.(state);
  }

  private transmit(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
