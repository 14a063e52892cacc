import type { Formats } from "../app/formats";
import type { Text } from "../messages/text";
import type { Translation } from "./transcript";

/** How long each stage took and how long it was in all, in one line. */
export function latencyLine(
  language: string,
  { timings, totalMs }: Translation,
  formats: Formats,
  text: Text,
): string {
  // The node's own sum leaves out the way to it and back, and would stand beside the whole time.
  const stages = Object.entries(timings).flatMap(([stage, ms]) =>
    ms === null || stage === "total_ms" ? [] : [[stage.replace(/_ms$/, ""), ms] as const],
  );
  return [
    language,
    ...stages.map(([stage, ms]) => `${stage} ${formats.milliseconds(ms)}`),
    ...(totalMs === null ? [] : [text("inAll", { time: formats.milliseconds(totalMs) })]),
  ].join(" · ");
}
