import { Anchor, Card, Group, Progress, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { useText, type MessageKey } from "../messages/text";

type Explanation = components["schemas"]["Explain"];
type Decision = Explanation["attempts"][number];

const NODES_NAMED = 5;

/** Why the scheduler chose a job's nodes: who was left out for what, and who was taken. */
export function ExplanationCard({ explanation }: { explanation: Explanation }) {
  const text = useText();
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("explanation")}
      </Title>
      <Stack>
        {explanation.waiting && (
          <Text>
            {text("waitsInLine", {
              pair: explanation.waiting.pool,
              count: explanation.waiting.in_line,
            })}{" "}
            {explanation.waiting.message}
          </Text>
        )}
        {explanation.attempts.map((decision) => (
          <DecisionDrawn key={decision.attempt} decision={decision} />
        ))}
      </Stack>
    </Card>
  );
}

function DecisionDrawn({ decision }: { decision: Decision }) {
  const text = useText();
  const reasons = Object.entries(decision.reasons);
  const leftOut = reasons.reduce((sum, [, { count }]) => sum + count, 0);
  const candidates = leftOut + (decision.chosen ? 1 : 0);
  return (
    <Stack gap="xs">
      <Text fw={600}>
        {text("decisionTitle", {
          attempt: decision.attempt,
          pair: decision.pool,
          cells: decision.shards_tried.join(", ") || "–",
          version: decision.snapshot_version,
        })}
      </Text>
      {reasons.map(([reason, { count, nodes }]) => (
        <div key={reason}>
          <Group justify="space-between">
            <Text size="sm">{text(`reason_${reason}` as MessageKey)}</Text>
            <Text size="sm" className="number">
              {count}
            </Text>
          </Group>
          <Progress value={(100 * count) / candidates} color="gray" aria-label={reason} />
          <Text size="xs" c="dimmed">
            {nodes.slice(0, NODES_NAMED).join(", ")}
            {count > NODES_NAMED && " …"}
          </Text>
        </div>
      ))}
      <Text size="sm">
        {decision.chosen ? (
          <>
            {text("chosen")}{" "}
            <Anchor
              size="sm"
              underline="always"
              renderRoot={(props) => (
                <Link to="/nodes/$nodeId" params={{ nodeId: decision.chosen ?? "" }} {...props} />
              )}
            >
              {decision.chosen}
            </Anchor>
          </>
        ) : (
          text("chosenNone")
        )}
      </Text>
    </Stack>
  );
}
