import workletUrl from "./pcm-worklet.ts?worker&url";

const SAMPLE_RATE = 16_000;

/** A microphone that is open; every tenth of a second it gives what it heard. */
export interface Microphone {
  close: () => Promise<void>;
}

/** Whether this page may use a microphone at all: browsers refuse it over plain HTTP. */
export function hasMicrophone(): boolean {
  return window.isSecureContext && "mediaDevices" in navigator;
}

/** Why a browser gives no microphone, as far as its user can do something about it. */
export type MicrophoneRefusal = "denied" | "missing" | "busy" | "failed";

export class MicrophoneRefused extends Error {
  readonly refusal: MicrophoneRefusal;

  constructor(refusal: MicrophoneRefusal) {
    super(`the microphone is ${refusal}`);
    this.refusal = refusal;
  }
}

const REFUSALS: Readonly<Record<string, MicrophoneRefusal>> = {
  NotAllowedError: "denied",
  NotFoundError: "missing",
  NotReadableError: "busy",
  AbortError: "busy",
};

async function openStream(): Promise<MediaStream> {
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
    });
  } catch (error) {
    const name = error instanceof DOMException ? error.name : "";
    throw new MicrophoneRefused(REFUSALS[name] ?? "failed");
  }
}

export async function openMicrophone(
  hear: (samples: Int16Array<ArrayBuffer>) => void,
): Promise<Microphone> {
  const stream = await openStream();
  const context = new AudioContext({ sampleRate: SAMPLE_RATE });
  const close = async () => {
    for (const track of stream.getTracks()) track.stop();
    await context.close();
  };
  try {
    await context.audioWorklet.addModule(workletUrl);
    const worklet = new AudioWorkletNode(context, "pcm", { numberOfOutputs: 0 });
    worklet.port.onmessage = (event: MessageEvent<Int16Array<ArrayBuffer>>) => {
      hear(event.data);
    };
    context.createMediaStreamSource(stream).connect(worklet);
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}
