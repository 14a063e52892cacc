/** Plays speech one piece after another, in the order in which it is given. */
export class Speaker {
  private readonly context = new AudioContext();
  private last: Promise<void> = Promise.resolve();
  private freeAt = 0;

  /** Play a sound file, such as a WAV, once everything before it has been played. */
  play(file: ArrayBuffer): void {
    // What cannot be decoded is skipped; its text is on the page.
    const decoded = this.context.decodeAudioData(file).catch(() => null);
    this.last = this.last.then(async () => {
      const sound = await decoded;
      if (sound === null || this.context.state === "closed") return;
      // A browser may hold the sound back until it is asked again, as after a call on a phone.
      if (this.context.state !== "running") void this.context.resume();
      const source = this.context.createBufferSource();
      source.buffer = sound;
      source.connect(this.context.destination);
      const startAt = Math.max(this.context.currentTime, this.freeAt);
      this.freeAt = startAt + sound.duration;
      source.start(startAt);
    });
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}

export function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer;
}
