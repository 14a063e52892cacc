import { Badge, Card, Group, Progress, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect } from "react";

import { answerOf, api } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import type { components } from "../api/schema";
import { ConfirmedAction } from "../app/confirmed-action";
import { Facts } from "../app/facts";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { StateMark } from "../app/state-mark";
import { nameOf, useText } from "../messages/text";
import { NodeHour } from "./hour-card";
import { NodeAttempts } from "./node-attempts";
import { NodeStatus } from "./node-status";

const route = getRouteApi("/shell/nodes/$nodeId");
const AGAIN_MS = 1_000;

type Node = components["schemas"]["Node"];

const SERVICE_COLORS: Readonly<Record<Node["services"][number]["status"], string>> = {
  running: "var(--mantine-color-green-6)",
  stopped: "var(--mantine-color-gray-6)",
  error: "var(--mantine-color-red-6)",
};

/** One node: what it runs, how busy it is, why it gets no jobs, and what an operator may do. */
export function NodePage() {
  const text = useText();
  const { nodeId } = route.useParams();
  const row = useFleet("nodes")?.get(nodeId);
  const node = useQuery({
    queryKey: ["node", nodeId],
    queryFn: () => nodeOf(nodeId),
    // What came and went between two looks of the server changes no row: what was read meanwhile
    // is old then.
    refetchInterval: ({ state }) =>
      row !== undefined && state.data !== undefined && state.data.status !== row.status
        ? AGAIN_MS
        : false,
  });
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: ["node", nodeId] });
  }, [row, nodeId]);
  return (
    <Stack>
      <PageTitle>{text("nodeTitle", { node: nodeId })}</PageTitle>
      {node.isPending && <Loading />}
      {node.error && <ProblemAlert error={node.error} />}
      {node.data && <NodeFacts node={node.data} />}
    </Stack>
  );
}

function nodeOf(nodeId: string): Promise<Node> {
  return answerOf(api.GET("/api/v1/nodes/{node_id}", { params: { path: { node_id: nodeId } } }));
}

function NodeFacts({ node }: { node: Node }) {
  const text = useText();
  const formats = useFormats();
  const mayAct = useMayAct("nodes");
  const { slots } = node;
  return (
    <>
      {mayAct && <NodeActions node={node} />}
      <Facts
        rows={[
          [text("state"), <NodeStatus key="state" status={node.status} />],
          [text("reason"), node.reason],
          [text("slotsUsed"), `${slots.used} / ${slots.total}`],
          [text("cell"), node.cell],
          [text("instance"), node.instance_id],
          [text("lastSeen"), formats.time(node.last_seen)],
          [text("recognises"), node.languages.asr_langs.join(" ")],
          [text("repairs"), node.languages.semantic_langs.join(" ")],
          [text("translates"), node.languages.nmt_langs.join(" ")],
          [text("speaks"), node.languages.tts_langs.join(" ")],
          [text("features"), node.features.join(" ")],
          [text("pairs"), formats.number(node.pools_total)],
        ]}
      />
      <NodeAttempts nodeId={node.node_id} />
      <NodeHour nodeId={node.node_id} />
      <Card withBorder>
        <Title order={2} size="h4">
          {text("services")}
        </Title>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("service")}</Table.Th>
              <Table.Th>{text("kind")}</Table.Th>
              <Table.Th>{text("version")}</Table.Th>
              <Table.Th>{text("device")}</Table.Th>
              <Table.Th>{text("state")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {node.services.map((service) => (
              <Table.Tr key={`${service.service_id} ${service.version ?? ""}`}>
                <Table.Td>{service.service_id}</Table.Td>
                <Table.Td>{service.type}</Table.Td>
                <Table.Td>{service.version ?? "–"}</Table.Td>
                <Table.Td>{service.device}</Table.Td>
                <Table.Td>
                  <StateMark color={SERVICE_COLORS[service.status]}>
                    {nameOf(text, `service_${service.status}`, service.status)}
                  </StateMark>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        {node.marks.map((mark) => (
          <Text key={`${mark.service_id} ${mark.reason}`} size="sm" c="orange">
            {text("markedUntil", {
              service: mark.service_id,
              reason: mark.reason,
              time: formats.time(mark.expires_at),
            })}
          </Text>
        ))}
      </Card>
      <Card withBorder>
        <Title order={2} size="h4">
          {text("resources")}
        </Title>
        {Object.entries(node.resources).map(([name, use]) => (
          <Group key={name} wrap="nowrap">
            <Text w={80} size="sm">
              {name}
            </Text>
            <Progress
              flex={1}
              value={use.mean_percent}
              color={use.over ? "red" : "blue"}
              aria-label={name}
            />
            <Text size="sm" className="number">
              {formats.number(use.mean_percent)} %
            </Text>
            {use.over && <Badge color="red">{text("overThreshold")}</Badge>}
          </Group>
        ))}
      </Card>
    </>
  );
}

function NodeActions({ node }: { node: Node }) {
  const text = useText();
  const path = { params: { path: { node_id: node.node_id } } };
  const reload = () => {
    void queryClient.invalidateQueries({ queryKey: ["node", node.node_id] });
  };
  return (
    <Group>
      {node.status === "draining" ? (
        <ConfirmedAction
          key="resume"
          label={text("resume")}
          consequence={text("resumeConsequence", { node: node.node_id })}
          act={() => answerOf(api.POST("/api/v1/nodes/{node_id}/resume", path))}
          onDone={reload}
        />
      ) : (
        <ConfirmedAction
          key="drain"
          label={text("drain")}
          consequence={text("drainConsequence", { node: node.node_id })}
          act={() => answerOf(api.POST("/api/v1/nodes/{node_id}/drain", path))}
          onDone={reload}
        />
      )}
      <ConfirmedAction
        label={text("shutdown")}
        consequence={text("shutdownConsequence", { node: node.node_id })}
        color="red"
        act={() => answerOf(api.POST("/api/v1/nodes/{node_id}/shutdown", path))}
        onDone={reload}
      />
    </Group>
  );
}
