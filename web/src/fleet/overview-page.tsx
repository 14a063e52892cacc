import { Alert, Anchor, Card, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { useMe } from "../api/identity";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import type { Overview } from "../live/fleet-state";
import { useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { ActivityChart } from "./activity-chart";
import { FleetHour } from "./hour-card";
import { reasonText } from "./explanation-card";
import { NODE_STATES } from "./node-filter";
import { NodeStatus } from "./node-status";

/** The health of the fleet at a glance. */
export function OverviewPage() {
  const text = useText();
  const overview = useFleet("overview");
  const me = useMe();
  if (me && !me.sees.includes("stats")) return <Text>{text("nothingToSee")}</Text>;
  return (
    <Stack>
      <PageTitle>{text("overview")}</PageTitle>
      {overview ? <Figures overview={overview} /> : <Loading />}
    </Stack>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const text = useText();
  const formats = useFormats();
  const total = Object.values(overview.nodes).reduce((sum, count) => sum + count, 0);
  const duration = overview.job_duration;
  const latency = overview.dispatch_latency;
  const reasons = Object.entries(overview.refused_reasons).sort(([, one], [, other]) => other - one);
  const refusals = Object.entries(overview.refused).sort(([, one], [, other]) => other - one);
  return (
    <Stack>
      {overview.problem !== null && (
        <Alert color="red" variant="outline" role="alert" title={text("numbersAreOld")}>
          {overview.problem}
        </Alert>
      )}
      {total === 0 && (
        <Alert variant="outline" title={text("noNodes")}>
          {text("noNodesHint", { url: location.origin.replace(/^http/, "ws") })}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 2, md: 4 }} spacing={{ base: "xs", sm: "md" }}>
        <Figure title={text("nodesReady")}>
          <OfAll part={overview.nodes["ready"] ?? 0} all={total} />
        </Figure>
        <Figure title={text("slotsUsed")}>
          <OfAll part={overview.slots_used} all={overview.slots} />
        </Figure>
        <Figure title={text("sessions")}>{formats.number(overview.sessions)}</Figure>
        <Figure title={text("jobsPerSecond")}>{formats.number(overview.jobs_per_second)}</Figure>
        <Figure title={text("jobsRunning")}>{formats.number(overview.jobs_running)}</Figure>
        <Figure title={text("jobsWaiting")}>{formats.number(overview.jobs_waiting)}</Figure>
        <Figure title={text("jobDuration")}>
          <HalfAndMost of={duration} />
        </Figure>
        <Figure title={text("dispatchLatency")}>
          <HalfAndMost of={latency} />
        </Figure>
      </SimpleGrid>
      <ActivityChart overview={overview} />
      <FleetHour />
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Card withBorder>
          <Title order={2} size="h4">
            {text("nodesByState")}
          </Title>
          <Table>
            <Table.Tbody>
              {NODE_STATES.map((status) => (
                <Table.Tr key={status}>
                  <Table.Td>
                    <Anchor renderRoot={(props) => <Link to="/nodes" search={{ status }} {...props} />}>
                      <NodeStatus status={status} />
                    </Anchor>
                  </Table.Td>
                  <Table.Td className="number figure">{formats.number(overview.nodes[status] ?? 0)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Card>
        <Card withBorder>
          <Title order={2} size="h4">
            {text("refusals")}
          </Title>
          {refusals.length === 0 ? (
            <Text c="dimmed">{text("noRefusals")}</Text>
          ) : (
            <Table>
              <Table.Tbody>
                {refusals.map(([code, count]) => (
                  <Table.Tr key={code}>
                    <Table.Td>{code}</Table.Td>
                    <Table.Td className="number figure">{formats.number(count)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          )}
          {reasons.length > 0 && (
            <>
              <Text size="sm" mt="xs" fw={600}>
                {text("refusalReasons")}
              </Text>
              <Table aria-label={text("refusalReasons")}>
                <Table.Tbody>
                  {reasons.map(([reason, count]) => (
                    <Table.Tr key={reason}>
                      <Table.Td>{reasonText(text, reason)}</Table.Td>
                      <Table.Td className="number figure">{formats.number(count)}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </>
          )}
        </Card>
      </SimpleGrid>
    </Stack>
  );
}

function Figure({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card withBorder padding="md">
      <Text c="dimmed" size="sm">
        {title}
      </Text>
      <div className="number big-figure">{children}</div>
    </Card>
  );
}

function OfAll({ part, all }: { part: number; all: number }) {
  const formats = useFormats();
  return (
    <>
      {formats.number(part)} <span className="big-figure-rest">/ {formats.number(all)}</span>
    </>
  );
}

function HalfAndMost({ of }: { of: Overview["job_duration"] }) {
  const formats = useFormats();
  if (of === null) return "–";
  return (
    <>
      {formats.milliseconds(of.p50_ms)}{" "}
      <span className="big-figure-rest">/ {formats.milliseconds(of.p99_ms)}</span>
    </>
  );
}
