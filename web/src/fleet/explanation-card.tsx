import { Anchor, Card, Group, Progress, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { components } from "../api/schema";
import { useText, type MessageKey, type Text as TextOf } from "../messages/text";

type Explanation = components["schemas"]["Explain"];
type Decision = Explanation["attempts"][number];

const NODES_NAMED = 5;

const REASONS = [
  "excluded",
  "feature_unsupported",
  "model_unavailable",
  "no_free_slot",
  "not_public",
  "not_ready",
  "pair_unsupported",
  "reserved_headroom",
  "resource_threshold",
  "service_missing",
  "service_not_ready",
  "spread",
] as const;

/** Why nodes were left out, in words; one that this console does not know, as the server has it. */
export function reasonText(text: TextOf, reason: string): string {
  const known = REASONS.find((one) => one === reason);
  return known === undefined ? reason : text(`reason_${known}` satisfies MessageKey);
}

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
  const candidates = decision.candidates ?? null;
  const all = leftOut + (candidates?.count ?? (decision.chosen ? 1 : 0));
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
        <Share
          key={reason}
          title={reasonText(text, reason)}
          color="gray"
          count={count}
          all={all}
          nodes={nodes}
        />
      ))}
      {candidates !== null && (
        <Share
          title={text("candidates")}
          color="blue"
          count={candidates.count}
          all={all}
          nodes={candidates.nodes}
        />
      )}
      <Text size="sm">
        {decision.chosen ? (
          <>
            {text("chosen")}{" "}
            <NodeLink nodeId={decision.chosen} />
          </>
        ) : (
          text("chosenNone")
        )}
      </Text>
    </Stack>
  );
}

interface ShareProps {
  title: string;
  color: string;
  count: number;
  /** All nodes that were looked at. */
  all: number;
  nodes: readonly string[];
}

/** A part of the nodes that were looked at: how many, and which. */
function Share({ title, color, count, all, nodes }: ShareProps) {
  const text = useText();
  const rest = nodes.slice(NODES_NAMED);
  const unnamed = count - nodes.length;
  return (
    <div>
      <Group justify="space-between">
        <Text size="sm">{title}</Text>
        <Text size="sm" className="number">
          {count}
        </Text>
      </Group>
      <Progress value={(100 * count) / Math.max(1, all)} color={color} aria-label={title} />
      <NodeLinks nodes={nodes.slice(0, NODES_NAMED)} />
      {rest.length > 0 && (
        <details>
          <summary>{text("moreNodes", { count: rest.length })}</summary>
          <NodeLinks nodes={rest} />
          {unnamed > 0 && <Text size="xs">{text("unnamedNodes", { count: unnamed })}</Text>}
        </details>
      )}
    </div>
  );
}

function NodeLinks({ nodes }: { nodes: readonly string[] }) {
  return (
    <Group gap="xs" className="fact">
      {nodes.map((node) => (
        <NodeLink key={node} nodeId={node} />
      ))}
    </Group>
  );
}

function NodeLink({ nodeId }: { nodeId: string }) {
  return (
    <Anchor
      size="sm"
      underline="always"
      renderRoot={(props) => <Link to="/nodes/$nodeId" params={{ nodeId }} {...props} />}
    >
      {nodeId}
    </Anchor>
  );
}
