import { StateMark } from "../app/state-mark";
import { useText } from "../messages/text";
import { RUN_STATES, type RunState } from "./types";

/** The colour of a state; its name always stands beside it. */
const COLORS: Readonly<Record<RunState, string>> = {
  pending: "var(--mantine-color-gray-6)",
  processing: "var(--mantine-color-blue-5)",
  draining: "var(--mantine-color-grape-5)",
  terminating: "var(--mantine-color-orange-6)",
  success: "var(--mantine-color-green-6)",
  failed: "var(--mantine-color-red-6)",
  terminated: "var(--mantine-color-yellow-6)",
};

/** How an experiment or a run stands. */
export function RunStatus({ status }: { status: string }) {
  const text = useText();
  const known = RUN_STATES.find((state) => state === status);
  return (
    <StateMark color={COLORS[known ?? "pending"]}>
      {known === undefined ? status : text(`run_${known}`)}
    </StateMark>
  );
}
