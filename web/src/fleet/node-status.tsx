import { StateMark } from "../app/state-mark";
import { useText } from "../messages/text";
import type { NodeState } from "./node-filter";

/** The colour of a state; its name always stands beside it. */
export const STATE_COLORS: Readonly<Record<NodeState, string>> = {
  registering: "var(--mantine-color-blue-5)",
  ready: "var(--mantine-color-green-6)",
  degraded: "var(--mantine-color-orange-6)",
  draining: "var(--mantine-color-grape-5)",
  offline: "var(--mantine-color-gray-6)",
};

export function NodeStatus({ status }: { status: NodeState }) {
  const text = useText();
  return <StateMark color={STATE_COLORS[status]}>{text(status)}</StateMark>;
}
