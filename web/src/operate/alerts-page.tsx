import { Alert, Anchor, Badge, Card, Code, Group, Stack, Text, Title } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import runbook from "../../../docs/howto/runbook.md?raw";
import { answerOf, api } from "../api/client";
import type { components } from "../api/schema";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { runbookEntries, type RunbookBlock } from "./runbook";

type AlertShown = components["schemas"]["AlertShown"];

const LOOK_MS = 15_000;

/** What the server would alert of now, with what the runbook says to do. */
export function AlertsPage() {
  const text = useText();
  const formats = useFormats();
  const at = useFleet("overview")?.at;
  const look = at === undefined ? undefined : Math.floor(Date.parse(at) / LOOK_MS);
  const alerts = useQuery({
    queryKey: ["alerts", look],
    queryFn: () => answerOf(api.GET("/api/v1/alerts")),
    placeholderData: keepPreviousData,
  });
  const entries = useMemo(() => runbookEntries(runbook), []);
  const items = alerts.data?.items ?? [];
  return (
    <Stack>
      <PageTitle>{text("alerts")}</PageTitle>
      {alerts.isPending && <Loading />}
      {alerts.error && <ProblemAlert error={alerts.error} />}
      {alerts.data && items.length === 0 && (
        <Alert variant="outline" color="green" title={text("noAlerts")}>
          {alerts.data.looked_at !== null &&
            text("lookedAt", { time: formats.time(alerts.data.looked_at) })}
        </Alert>
      )}
      {items.map((alert) => (
        <AlertCard
          key={`${alert.name} ${JSON.stringify(alert.about)}`}
          alert={alert}
          entry={entries.get(alert.name) ?? []}
        />
      ))}
      {alerts.data && (
        <Text size="sm" c="dimmed">
          {text("notJudged", { names: alerts.data.not_judged.join(", ") })}
        </Text>
      )}
    </Stack>
  );
}

interface AlertCardProps {
  alert: AlertShown;
  entry: readonly RunbookBlock[];
}

function AlertCard({ alert, entry }: AlertCardProps) {
  const text = useText();
  const formats = useFormats();
  const anchor = alert.runbook.split("#")[1] ?? alert.name;
  return (
    <Card withBorder id={anchor}>
      <Group justify="space-between">
        <Title order={2} size="h4">
          {alert.name}
        </Title>
        <Group gap="xs">
          <Badge variant="default">
            {text(alert.severity === "page" ? "severityPage" : "severityTicket")}
          </Badge>
          <Badge variant="default">
            {text(alert.state === "firing" ? "alertFiring" : "alertPending")}
          </Badge>
        </Group>
      </Group>
      <Text>{alert.summary}</Text>
      <Text size="sm" c="dimmed">
        {text("alertSince", {
          time: formats.time(alert.since),
          wait: formats.seconds(alert.for_seconds),
        })}
      </Text>
      <details>
        <summary>{text("whatToDo")}</summary>
        <div lang="en">
          <Blocks blocks={entry} />
          <Anchor size="sm" href={`#${anchor}`}>
            {alert.runbook}
          </Anchor>
        </div>
      </details>
    </Card>
  );
}

function Blocks({ blocks }: { blocks: readonly RunbookBlock[] }) {
  return blocks.map((block, index) => {
    const line = block.pieces.map(({ kind, text }, place) => {
      const key = `${place} ${text}`;
      if (kind === "code") return <Code key={key}>{text}</Code>;
      if (kind === "bold") return <strong key={key}>{text}</strong>;
      return <span key={key}>{text}</span>;
    });
    return (
      <Text key={index} size="sm" className={block.isItem ? "runbook-item" : "runbook-text"}>
        {line}
      </Text>
    );
  });
}
