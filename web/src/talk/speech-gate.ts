/** A piece of speech to send; the last one of an utterance is final. */
export interface SpeechPiece {
  samples: Int16Array<ArrayBuffer>;
  isFinal: boolean;
}

/** How loud a piece must be to count as speech, as a share of full scale. */
export const SPEECH_LEVEL = 0.012;

/** Pieces before the first loud one that are sent too: words begin softly. */
const PIECES_BEFORE = 3;

/** Silent pieces that end an utterance. */
const SILENT_PIECES = 6;

/** What decides which of the samples that a microphone hears are sent. */
export interface Gate {
  /** What to send now that this piece was heard. */
  hear: (samples: Int16Array<ArrayBuffer>) => SpeechPiece[];
  /** What to send now that the speaker stops. */
  close: () => SpeechPiece[];
}

/** Everything goes to the server, which finds speech and pauses itself. */
export function ungated(): Gate {
  return {
    hear: (samples) => [{ samples, isFinal: false }],
    close: () => [lastPiece()],
  };
}

/** Lets speech through and keeps silence back, so that utterances end where a speaker pauses. */
export class SpeechGate implements Gate {
  private readonly before: Int16Array<ArrayBuffer>[] = [];
  private isOpen = false;
  private silent = 0;

  /** What to send now that this piece was heard. */
  hear(samples: Int16Array<ArrayBuffer>): SpeechPiece[] {
    const loud = levelOf(samples) >= SPEECH_LEVEL;
    if (!this.isOpen) {
      this.before.push(samples);
      if (!loud) {
        if (this.before.length > PIECES_BEFORE) this.before.shift();
        return [];
      }
      this.isOpen = true;
      this.silent = 0;
      return this.before.splice(0).map((piece) => ({ samples: piece, isFinal: false }));
    }
    this.silent = loud ? 0 : this.silent + 1;
    this.isOpen = this.silent < SILENT_PIECES;
    return [{ samples, isFinal: !this.isOpen }];
  }

  /** The speaker stops: an utterance that is open ends here. */
  close(): SpeechPiece[] {
    const wasOpen = this.isOpen;
    this.isOpen = false;
    this.before.length = 0;
    return wasOpen ? [lastPiece()] : [];
  }
}

/** A hundredth of a second of silence that ends an utterance. */
function lastPiece(): SpeechPiece {
  return { samples: new Int16Array(160), isFinal: true };
}

/** How loud samples are: their root mean square, from 0 to 1. */
export function levelOf(samples: Int16Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  return samples.length === 0 ? 0 : Math.sqrt(sum / samples.length) / 32_768;
}
