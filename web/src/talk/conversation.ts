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
  type MicrophoneRefusal,
} from "./microphone";
import { bytesOf, type Speaker } from "./speaker";
import { levelOf, SpeechGate, ungated, type Gate } from "./speech-gate";
import type { PauseFinder } from "./talk-search";
import { lineId, withPartial, withResult, withText, type Transcript } from "./transcript";

export interface ConversationOptions {
  srcLang: string;
  tgtLangs: readonly string[];
  speaks: boolean;
  pauses: PauseFinder;
}

/** What conversations on one page share: when they began, and one voice at a time. */
export interface TalkRoom {
  speaker: Speaker;
  beganAt: number;
}

/** What a page shows of a conversation. */
export interface ConversationView {
  lines: Transcript;
  state: SessionState;
  isListening: boolean;
  /** How loud the microphone is, from 0 to 1. */
  level: number;
  /** What the server refused, in its words, or why there is no microphone. */
  problem: { said: string } | { microphone: MicrophoneRefusal } | null;
}

export const NOTHING_YET: ConversationView = {
  lines: [],
  state: "closed",
  isListening: false,
  level: 0,
  problem: null,
};

type Kind = "text" | "speech";

/** Sessions are numbered over all conversations of the page: each numbers its utterances from 0. */
let runs = 0;

/** Speech and texts of one person: a session for each, a microphone, a transcript. */
export class Conversation {
  private readonly options: ConversationOptions;
  private show: (view: ConversationView) => void;
  private readonly room: TalkRoom;
  private readonly sessions = new Map<Kind, { session: Session; run: number }>();
  private gate: Gate = new SpeechGate();
  private microphone: Microphone | null = null;
  private view: ConversationView;

  /** The lines are those of the conversation before, in other languages. */
  constructor(
    room: TalkRoom,
    options: ConversationOptions,
    show: (view: ConversationView) => void,
    lines: Transcript,
  ) {
    this.room = room;
    this.options = options;
    this.show = show;
    this.view = { ...NOTHING_YET, state: "connecting", lines };
  }

  isFor({ srcLang, tgtLangs, speaks, pauses }: ConversationOptions): boolean {
    const own = this.options;
    return (
      own.srcLang === srcLang &&
      own.speaks === speaks &&
      own.pauses === pauses &&
      own.tgtLangs.join() === tgtLangs.join()
    );
  }

  say(said: string): void {
    this.change({ problem: null });
    const { session, run } = this.session("text");
    const index = session.say(said, { speech: this.options.speaks });
    const id = lineId("text", run, index);
    this.change({ lines: withText(this.view.lines, id, this.atMs(), said) });
  }

  async toggleMicrophone(): Promise<void> {
    if (this.microphone === null) await this.listen();
    else await this.stopListening();
  }

  private async listen(): Promise<void> {
    this.gate = this.options.pauses === "server" ? ungated() : new SpeechGate();
    try {
      this.microphone = await openMicrophone((samples) => {
        this.hear(samples);
      });
      this.change({ isListening: true, problem: null });
    } catch (error) {
      const said = error instanceof Error ? error.message : String(error);
      const isRefused = error instanceof MicrophoneRefused;
      this.change({ problem: isRefused ? { microphone: error.refusal } : { said } });
    }
  }

  async end(): Promise<void> {
    // From now on the page shows another conversation, or nothing.
    this.show = () => undefined;
    await this.stopListening();
    for (const { session } of this.sessions.values()) session.close();
    this.sessions.clear();
  }

  async stopListening(): Promise<void> {
    if (this.microphone === null) return;
    const microphone = this.microphone;
    this.microphone = null;
    for (const piece of this.gate.close()) {
      this.sessions.get("speech")?.session.sendAudio(piece.samples, piece.isFinal);
    }
    this.change({ isListening: false, level: 0 });
    await microphone.close();
  }

  private hear(samples: Int16Array<ArrayBuffer>): void {
    this.change({ level: levelOf(samples) });
    for (const piece of this.gate.hear(samples)) {
      this.session("speech").session.sendAudio(piece.samples, piece.isFinal);
    }
  }

  private session(kind: Kind): { session: Session; run: number } {
    const known = this.sessions.get(kind);
    if (known !== undefined) return known;
    const run = (runs += 1);
    const { srcLang, tgtLangs, pauses } = this.options;
    const vad = pauses === "server" ? "webrtc" : "off";
    const idOf = (index: number) => lineId(kind, run, index);
    const session = new Session(
      { url: location.origin.replace(/^http/, "ws"), srcLang, tgtLangs, vad },
      {
        onState: (state) => {
          this.change({ state });
        },
        onPartial: (partial: AsrPartial) => {
          const id = idOf(partial.utterance_index);
          this.change({ lines: withPartial(this.view.lines, id, this.atMs(), partial) });
        },
        onResult: (result) => {
          this.delivered(idOf(result.utterance_index), result);
        },
        onError: (error) => {
          this.change({ problem: { said: error.message } });
        },
        onEnd: (reason) => {
          this.sessions.delete(kind);
          if (kind === "speech" && this.view.isListening) void this.stopListening();
          if (reason !== "closed by the client") this.change({ problem: { said: reason } });
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
    this.show(this.view);
  }
}
