/** A sound that a column refers to or holds. */
export interface Sound {
  sha256: string;
  /** The sound itself, where the row holds it; else the dataset keeps it. */
  base64: string | null;
  format: string;
}

const SHA256 = /^[0-9a-f]{64}$/;
const SAMPLE_RATE = 16_000;

/** The sound in a value; null where it is something else. */
export function soundOf(value: unknown): Sound | null {
  if (typeof value !== "object" || value === null || !("sha256" in value)) return null;
  const { sha256 } = value;
  if (typeof sha256 !== "string" || !SHA256.test(sha256)) return null;
  const base64 = "base64" in value && typeof value.base64 === "string" ? value.base64 : null;
  return { sha256, base64, format: "format" in value ? String(value.format) : "wav" };
}

/** A sound as a file that a player takes. */
export function soundFile(base64: string, format: string): Blob {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Blob(format === "pcm16" ? [wavHeader(bytes.length), bytes] : [bytes]);
}

/** What makes a WAV file of samples with 16 bits, one channel, as nodes speak them. */
function wavHeader(bytes: number): ArrayBuffer {
  const header = new DataView(new ArrayBuffer(44));
  const write = (at: number, text: string) => {
    for (let index = 0; index < text.length; index += 1) {
      header.setUint8(at + index, text.charCodeAt(index));
    }
  };
  write(0, "RIFF");
  header.setUint32(4, 36 + bytes, true);
  write(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, SAMPLE_RATE, true);
  header.setUint32(28, 2 * SAMPLE_RATE, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  write(36, "data");
  header.setUint32(40, bytes, true);
  return header.buffer;
}
