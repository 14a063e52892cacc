import { StateMark } from "../app/state-mark";
import { nameOf, useText } from "../messages/text";

const COLORS: Readonly<Record<string, string>> = {
  success: "var(--mantine-color-green-6)",
  failed: "var(--mantine-color-red-6)",
  cancelled: "var(--mantine-color-yellow-6)",
};
const GOES_ON = "var(--mantine-color-blue-5)";
const ENDED = "var(--mantine-color-gray-6)";
const ENDS: readonly string[] = ["FINISHED", "RELEASED"];

/** Where a job or an attempt stands. */
export function AttemptState({ state }: { state: string }) {
  const text = useText();
  return (
    <StateMark color={ENDS.includes(state) ? ENDED : GOES_ON}>
      {nameOf(text, `attempt_${state}`, state)}
    </StateMark>
  );
}

/** How a job or an attempt ended; what went wrong is told by its code, which can be looked up. */
export function JobOutcome({ outcome, code }: { outcome: string | null; code: string | null }) {
  const text = useText();
  if (outcome === null && code === null) return "–";
  const ended = outcome ?? "failed";
  return (
    <StateMark color={COLORS[ended] ?? ENDED}>
      {code ?? nameOf(text, `jobOutcome_${ended}`, ended)}
    </StateMark>
  );
}

const SESSION_COLORS: Readonly<Record<string, string>> = {
  active: "var(--mantine-color-green-6)",
  disconnected: "var(--mantine-color-orange-6)",
  closing: "var(--mantine-color-grape-5)",
};

/** Where a session stands. */
export function SessionStatus({ state }: { state: string }) {
  const text = useText();
  return (
    <StateMark color={SESSION_COLORS[state] ?? ENDED}>
      {nameOf(text, `sessionState_${state}`, state)}
    </StateMark>
  );
}
