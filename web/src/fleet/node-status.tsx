import { Group, Text } from "@mantine/core";

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
  return (
    <Group gap={6} wrap="nowrap">
      <svg width="10" height="10" aria-hidden="true">
        <circle cx="5" cy="5" r="5" fill={STATE_COLORS[status]} />
      </svg>
      <Text span size="sm">
        {text(status)}
      </Text>
    </Group>
  );
}
