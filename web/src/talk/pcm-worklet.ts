/** Runs on the audio thread: gathers a tenth of a second of sound and hands it on as PCM16. */

const PIECE_SAMPLES = 1600;

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: unknown): void;

class PcmProcessor extends AudioWorkletProcessor {
  private piece = new Int16Array(PIECE_SAMPLES);
  private filled = 0;

  process(inputs: readonly (readonly Float32Array[])[]): boolean {
    for (const value of inputs[0]?.[0] ?? []) {
      this.piece[this.filled++] = Math.round(Math.max(-1, Math.min(1, value)) * 32_767);
      if (this.filled === PIECE_SAMPLES) {
        this.port.postMessage(this.piece, [this.piece.buffer]);
        this.piece = new Int16Array(PIECE_SAMPLES);
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("pcm", PcmProcessor);
