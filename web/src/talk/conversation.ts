import {
  Session,
  type AsrPartial,
  type MissingResult,
  type SessionState,
  type TranslationResult,
} from "@dragoman/client";

import {
  MicrophoneRefused,
  openMicrophone,
  type Microphone,
} from "./microphone";
import { bytesOf, type Speaker } from "./speaker";
import { levelOf, SpeechGate, ungated, type Gate, type SpeechPiece } from "./speech-gate";
import { isLanguage } from "./languages";
import { endOf, refusalOf, type TalkProblem } from "./talk-problem";
import type { PauseFinder } from "./talk-search";
import { lineId, withPartial, withResult, withText, type Transcript } from "./transcript";

export interface ConversationOptions {
  srcLang: string;
  tgtLangs: readonly string[];
  speaks: boolean;
  pauses: PauseFinder;
}

/** Whether a session can be opened with these languages: none is empty, or half typed. */
export function hasLanguages({ srcLang, tgtLangs }: ConversationOptions): boolean {
  return isLanguage(srcLang) && tgtLangs.length > 0 && tgtLangs.every(isLanguage);
}

/** What conversations on one page share: when they began, and one voice at a time. */
export interface TalkRoom {
  speaker: Speaker;
  beganAt: number;
}

/** A browser may take its time to open a microphone: it asks its user first. */
export type MicrophoneState = "off" | "opening" | "on";

/** What a page shows of a conversation. */
export interface ConversationView {
  lines: Transcript;
  state: SessionState;
  microphone: MicrophoneState;
  /** How loud the microphone is, from 0 to 1. */
  level: number;
  /** Whether the server said that it is shutting down, and none has answered since. */
  isDraining: boolean;
  problem: TalkProblem | null;
}

export const NOTHING_YET: ConversationView = {
  lines: [],
  state: "closed",
  microphone: "off",
  level: 0,
  isDraining: false,
  problem: null,
};

/** The close code of a server that shuts down. */
const DRAINING = 1001;

type Kind = "text" | "speech";

/** A microphone that is open or being opened, and what lets its speech through. */
interface Listening {
  gate: Gate;
  microphone: Promise<Microphone>;
}

/** Sessions are numbered over all conversations of the page: each numbers its utterances from 0. */
let runs = 0;

/**
 * Speech and texts of one person: a session for each, a microphone, a transcript. It lasts as long
 * as the page; in other languages it goes on with other sessions.
 */
export class Conversation {
  private options: ConversationOptions;
  private readonly show: (view: ConversationView) => void;
  private readonly room: TalkRoom;
  private readonly sessions = new Map<Kind, { session: Session; run: number }>();
  private listening: Listening | null = null;
  private hasEnded = false;
  private view: ConversationView = { ...NOTHING_YET, state: "connecting" };

  constructor(
    room: TalkRoom,
    options: ConversationOptions,
    show: (view: ConversationView) => void,
  ) {
    this.room = room;
    this.options = options;
    this.show = show;
  }

  /**
   * Go on as it is asked for now. Other languages, and another one who finds the pauses, take other
   * sessions; a microphone that is open stays open, and is heard by those.
   */
  adopt(options: ConversationOptions): void {
    const before = this.options;
    this.options = options;
    const isSame =
      before.srcLang === options.srcLang &&
      before.pauses === options.pauses &&
      before.tgtLangs.join() === options.tgtLangs.join();
    if (isSame) return;
    if (this.listening !== null) {
      this.send(this.listening.gate.close());
      this.listening.gate = this.newGate();
    }
    this.closeSessions();
  }

  say(said: string): void {
    this.change({ problem: null });
    const { session, run } = this.session("text");
    const index = session.say(said, { speech: this.options.speaks });
    const id = lineId("text", run, index);
    this.change({ lines: withText(this.view.lines, id, this.atMs(), said) });
  }

  async toggleMicrophone(): Promise<void> {
    if (this.view.microphone === "off") await this.listen();
    else if (this.view.microphone === "on") await this.stopListening();
  }

  private async listen(): Promise<void> {
    if (this.hasEnded || this.listening !== null) return;
    const listening: Listening = {
      gate: this.newGate(),
      microphone: openMicrophone((samples) => {
        if (this.listening === listening) this.hear(listening.gate, samples);
      }),
    };
    this.listening = listening;
    this.change({ microphone: "opening", problem: null });
    try {
      await listening.microphone;
      if (this.listening === listening) this.change({ microphone: "on" });
    } catch (error) {
      if (this.listening !== listening) return;
      this.listening = null;
      const refusal = error instanceof MicrophoneRefused ? error.refusal : "failed";
      this.change({ microphone: "off", problem: { microphone: refusal } });
    }
  }

  /** Nothing is heard or shown any more. */
  async end(): Promise<void> {
    this.hasEnded = true;
    const stopped = this.stopListening();
    // The browser may still be asking for the microphone: sessions do not wait for the answer.
    this.closeSessions();
    await stopped;
  }

  async stopListening(): Promise<void> {
    const listening = this.listening;
    if (listening === null) return;
    this.listening = null;
    this.send(listening.gate.close());
    this.change({ microphone: "off", level: 0 });
    // One that is still being opened is closed as soon as the browser gives it.
    const microphone = await listening.microphone.catch(() => null);
    await microphone?.close();
  }

  private newGate(): Gate {
    return this.options.pauses === "server" ? ungated() : new SpeechGate();
  }

  private hear(gate: Gate, samples: Int16Array<ArrayBuffer>): void {
    this.change({ level: levelOf(samples) });
    const pieces = gate.hear(samples);
    // Languages that are being typed are none yet: what is said meanwhile has no session.
    if (pieces.length === 0 || !hasLanguages(this.options)) return;
    this.session("speech");
    this.send(pieces);
  }

  /** Send speech, where there is a session for it. */
  private send(pieces: readonly SpeechPiece[]): void {
    for (const piece of pieces) {
      this.sessions.get("speech")?.session.sendAudio(piece.samples, piece.isFinal);
    }
  }

  private closeSessions(): void {
    const closing = [...this.sessions.values()];
    this.sessions.clear();
    for (const { session } of closing) session.close();
    if (closing.length > 0) this.change({ state: "closed" });
  }

  private session(kind: Kind): { session: Session; run: number } {
    const known = this.sessions.get(kind);
    if (known !== undefined) return known;
    const run = (runs += 1);
    const { srcLang, tgtLangs, pauses } = this.options;
    const vad = pauses === "server" ? "webrtc" : "off";
    const idOf = (index: number) => lineId(kind, run, index);
    const isCurrent = () => this.sessions.get(kind)?.run === run;
    const session = new Session(
      { url: location.origin.replace(/^http/, "ws"), srcLang, tgtLangs, vad },
      {
        onState: (state) => {
          if (!isCurrent()) return;
          this.change({ state, ...(state === "live" && { isDraining: false }) });
        },
        onLost: (code) => {
          if (code === DRAINING) this.change({ isDraining: true });
        },
        onPartial: (partial: AsrPartial) => {
          const id = idOf(partial.utterance_index);
          this.change({ lines: withPartial(this.view.lines, id, this.atMs(), partial) });
        },
        onResult: (result) => {
          this.delivered(idOf(result.utterance_index), result);
        },
        onError: (error) => {
          this.change({ problem: refusalOf(error, srcLang, tgtLangs) });
        },
        onEnd: (reason, code) => {
          // One that was closed here is no longer among the sessions.
          if (!isCurrent()) return;
          this.sessions.delete(kind);
          if (kind === "speech") void this.stopListening();
          this.change({ problem: endOf(code ?? 0, reason) });
        },
      },
    );
    const opened = { session, run };
    this.sessions.set(kind, opened);
    return opened;
  }

  private delivered(id: string, result: TranslationResult | MissingResult): void {
    this.change({ lines: withResult(this.view.lines, id, this.atMs(), result) });
    if (result.type === "translation_result" && result.tts_audio && this.options.speaks) {
      this.room.speaker.play(bytesOf(result.tts_audio));
    }
  }

  private atMs(): number {
    return Date.now() - this.room.beganAt;
  }

  private change(changed: Partial<ConversationView>): void {
    this.view = { ...this.view, ...changed };
    if (!this.hasEnded) this.show(this.view);
  }
}
