import { Alert, Anchor, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { answerOf, api, Problem } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import type { components } from "../api/schema";
import { ConfirmedAction } from "../app/confirmed-action";
import { Facts } from "../app/facts";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { endSession } from "./end-session";
import { SessionStatus } from "./job-marks";
import { useSessionNews } from "./use-session-news";
import { longestMs, utteranceSpans, type TimelineEntry, type Wait } from "./utterance-spans";

const route = getRouteApi("/shell/sessions/$sessionId");

type Session = components["schemas"]["Session"];
type Timeline = components["schemas"]["SessionTimeline"];

/** One session: how it stands, and where the time of each utterance went. */
export function SessionPage() {
  const text = useText();
  const { sessionId } = route.useParams();
  const mayAct = useMayAct("sessions");
  const params = { params: { path: { session_id: sessionId } } };
  const session = useQuery({
    queryKey: ["session", sessionId],
    queryFn: () => answerOf(api.GET("/api/v1/sessions/{session_id}", params)),
    retry: false,
    refetchOnWindowFocus: ({ state }) => !isMissing(state.error),
  });
  const timeline = useQuery({
    queryKey: ["timeline", sessionId],
    queryFn: () => answerOf(api.GET("/api/v1/sessions/{session_id}/timeline", params)),
    retry: false,
    refetchOnWindowFocus: ({ state }) => !isMissing(state.error),
  });
  const isOver = isMissing(session.error);
  useSessionNews(({ again, changed, gone }) => {
    // A session that is over stays so, and what it did is all there.
    if (isOver) return;
    const isNamed = changed.some((one) => one.session_id === sessionId) || gone.includes(sessionId);
    if (!again && !isNamed) return;
    void queryClient.invalidateQueries({ queryKey: ["session", sessionId] });
    void queryClient.invalidateQueries({ queryKey: ["timeline", sessionId] });
  });
  return (
    <Stack>
      <PageTitle>{text("sessionTitle", { session: sessionId })}</PageTitle>
      {(session.isPending || timeline.isPending) && <Loading />}
      {timeline.error && <ProblemAlert error={timeline.error} />}
      {isOver && timeline.data && <Text>{text("sessionOver")}</Text>}
      {session.data && !isOver && (
        <>
          {mayAct && (
            <Group>
              <ConfirmedAction
                label={text("endSession")}
                consequence={text("endSessionConsequence", { session: sessionId })}
                color="red"
                act={() => endSession(sessionId)}
                onDone={() => {
                  void queryClient.invalidateQueries({ queryKey: ["session", sessionId] });
                }}
              />
            </Group>
          )}
          <SessionFacts session={session.data} />
        </>
      )}
      {timeline.data && <UtterancesCard timeline={timeline.data} />}
    </Stack>
  );
}

function isMissing(error: Error | null): boolean {
  return error instanceof Problem && error.status === 404;
}

function SessionFacts({ session }: { session: Session }) {
  const text = useText();
  const formats = useFormats();
  return (
    <Facts
      rows={[
        [text("tenant"), session.tenant_id],
        [text("languages"), `${session.src_lang} → ${session.tgt_langs.join(" ")}`],
        [text("state"), <SessionStatus key="state" state={session.state} />],
        [text("utterances"), formats.number(session.utterances)],
        [text("inFlight"), formats.number(session.in_flight)],
        [text("instance"), session.instance_id],
      ]}
    />
  );
}

const WAITS: Readonly<Record<Wait, string>> = {
  queued: "var(--mantine-color-gray-5)",
  toNode: "var(--mantine-color-blue-5)",
  atNode: "var(--mantine-color-green-6)",
};

function UtterancesCard({ timeline }: { timeline: Timeline }) {
  const text = useText();
  const formats = useFormats();
  const { items, omitted, unreachable } = timeline;
  const lengthMs = longestMs(items);
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("utterances")}
      </Title>
      {unreachable.length > 0 && (
        <Alert color="orange" variant="outline" role="alert">
          {text("notAllAnswered", { instances: unreachable.join(" ") })}
        </Alert>
      )}
      {items.length === 0 ? (
        <Text c="dimmed">{text("noUtterances")}</Text>
      ) : (
        <>
          <Text size="sm" c="dimmed">
            {text("utterancesAxis", { length: formats.milliseconds(lengthMs) })}
          </Text>
          {omitted > 0 && (
            <Text size="sm" c="dimmed">
              {text("earlierLeftOut", { count: formats.number(omitted) })}
            </Text>
          )}
          <Stack gap="xs" component="ol" className="plain-list">
            {items.map((entry) => (
              <UtteranceRow key={entry.delivery_seq} entry={entry} lengthMs={lengthMs} />
            ))}
          </Stack>
          <Group gap="md" mt="xs">
            {Object.entries(WAITS).map(([wait, color]) => (
              <Group key={wait} gap={6}>
                <svg width="10" height="10" aria-hidden="true">
                  <rect width="10" height="10" fill={color} />
                </svg>
                <Text size="xs">{text(wait as Wait)}</Text>
              </Group>
            ))}
          </Group>
        </>
      )}
    </Card>
  );
}

function UtteranceRow({ entry, lengthMs }: { entry: TimelineEntry; lengthMs: number }) {
  const text = useText();
  const formats = useFormats();
  const spans = utteranceSpans(entry, lengthMs);
  const stages = Object.entries(entry.timings ?? {}).flatMap(([stage, ms]) =>
    typeof ms === "number" && stage !== "total_ms" ? [`${stage.replace(/_ms$/, "")} ${formats.milliseconds(ms)}`] : [],
  );
  return (
    <li>
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text size="sm" className="number">
            {`${entry.utterance_index} → ${entry.tgt_lang ?? "?"}`}
          </Text>
          <Text size="sm" c="dimmed">
            {formats.time(entry.ended_at)}
          </Text>
          {entry.job_id !== null && (
            <Anchor
              size="sm"
              renderRoot={(props) => (
                <Link to="/jobs/$jobId" params={{ jobId: entry.job_id ?? "" }} {...props} />
              )}
            >
              {entry.job_id}
            </Anchor>
          )}
          {entry.node_id !== null && (
            <Anchor
              size="sm"
              renderRoot={(props) => (
                <Link to="/nodes/$nodeId" params={{ nodeId: entry.node_id ?? "" }} {...props} />
              )}
            >
              {entry.node_id}
            </Anchor>
          )}
        </Group>
        <Text size="sm" className="number" {...(entry.reason !== null && { c: "red" })}>
          {entry.reason ??
            [...stages, text("inAll", { time: formats.milliseconds(entry.total_ms ?? 0) })].join(" · ")}
        </Text>
      </Group>
      {spans.length > 0 && (
        <svg
          className="timeline"
          viewBox="0 0 100 4"
          preserveAspectRatio="none"
          role="img"
          aria-label={spans.map(({ wait }) => text(wait)).join(", ")}
        >
          {spans.map(({ wait, from, to }) => (
            <rect
              key={wait}
              x={from * 100}
              width={Math.max(0.4, (to - from) * 100)}
              height="4"
              fill={WAITS[wait]}
            />
          ))}
        </svg>
      )}
    </li>
  );
}
