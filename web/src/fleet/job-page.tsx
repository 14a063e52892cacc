import { Anchor, Card, Group, Stack, Text, Title } from "@mantine/core";
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
import { attemptSpans, type Stage } from "./attempt-spans";
import { ExplanationCard } from "./explanation-card";
import { AttemptState, JobOutcome } from "./job-marks";

const route = getRouteApi("/shell/jobs/$jobId");
const GOING_ON_MS = 1_000;

type Job = components["schemas"]["Job"];

/** One job: its attempts in time, and why it went where it went. */
export function JobPage() {
  const text = useText();
  const { jobId } = route.useParams();
  const mayAct = useMayAct("jobs");
  const path = { path: { job_id: jobId } };
  const job = useQuery({
    queryKey: ["job", jobId],
    queryFn: () =>
      answerOf(
        api.GET("/api/v1/jobs/{job_id}", { params: { ...path, query: { result_audio: "omit" } } }),
      ),
    refetchInterval: ({ state }) => (state.data && !hasEnded(state.data) ? GOING_ON_MS : false),
  });
  const ended = job.data !== undefined && hasEnded(job.data);
  const explanation = useQuery({
    queryKey: ["explain", jobId, job.data?.attempts.length],
    queryFn: () => answerOf(api.GET("/api/v1/jobs/{job_id}/explain", { params: path })),
    enabled: job.data !== undefined,
  });
  return (
    <Stack>
      <PageTitle>{text("jobTitle", { job: jobId })}</PageTitle>
      {job.isPending && <Loading />}
      {job.error && <ProblemAlert error={job.error} />}
      {job.data && (
        <>
          {mayAct && !ended && (
            <Group>
              <ConfirmedAction
                label={text("cancelJob")}
                consequence={text("cancelJobConsequence", { job: jobId })}
                color="red"
                act={() => answerOf(api.DELETE("/api/v1/jobs/{job_id}", { params: path }))}
                onDone={() => {
                  void queryClient.invalidateQueries({ queryKey: ["job", jobId] });
                }}
              />
            </Group>
          )}
          <JobFacts job={job.data} />
          <AttemptsCard job={job.data} nowMs={job.dataUpdatedAt} />
        </>
      )}
      {explanation.data && <ExplanationCard explanation={explanation.data} />}
      {explanation.error instanceof Problem && explanation.error.status === 404 && (
        <Text c="dimmed">{explanation.error.message}</Text>
      )}
    </Stack>
  );
}

function hasEnded(job: Job): boolean {
  return job.state === "FINISHED" || job.state === "RELEASED";
}

function JobFacts({ job }: { job: Job }) {
  const text = useText();
  return (
    <Facts
      rows={[
        [text("state"), <AttemptState key="state" state={job.state} />],
        [text("outcome"), <JobOutcome key="outcome" outcome={job.outcome ?? null} code={null} />],
        [text("pair"), `${job.src_lang}:${job.tgt_lang}`],
        [text("class"), job.class],
        [text("requestId"), job.request_id],
        [text("error"), job.error ? `${job.error.code}: ${job.error.message}` : null],
        [text("recognised"), job.result?.text_asr ?? null],
        [text("translation"), job.result?.text_translated ?? null],
      ]}
    />
  );
}

const STAGE_COLORS: Readonly<Record<Stage, string>> = {
  waiting: "var(--mantine-color-gray-5)",
  accepted: "var(--mantine-color-blue-5)",
  running: "var(--mantine-color-green-6)",
};

/** Where the time axis has ticks, as shares of it. */
const TICKS = [0, 0.25, 0.5, 0.75, 1] as const;

function AttemptsCard({ job, nowMs }: { job: Job; nowMs: number }) {
  const text = useText();
  const formats = useFormats();
  if (job.attempts.length === 0) return <Text>{text("noAttempts")}</Text>;
  const { lengthMs, rows } = attemptSpans(job.attempts, nowMs);
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("attempts")}
      </Title>
      <Text size="sm" c="dimmed">
        {text("attemptsAxis", { length: formats.milliseconds(lengthMs) })}
      </Text>
      <Stack gap="xs">
        {rows.map(({ attempt, spans }) => (
          <div key={attempt.attempt_id}>
            <Group justify="space-between">
              <Anchor
                size="sm"
                renderRoot={(props) => (
                  <Link to="/nodes/$nodeId" params={{ nodeId: attempt.node_id }} {...props} />
                )}
              >
                {attempt.node_id}
              </Anchor>
              {attempt.error || attempt.outcome ? (
                <JobOutcome
                  outcome={attempt.outcome ?? null}
                  code={attempt.error?.code ?? null}
                />
              ) : (
                <AttemptState state={attempt.state} />
              )}
            </Group>
            <svg
              className="timeline"
              viewBox="0 0 100 4"
              preserveAspectRatio="none"
              role="img"
              aria-label={spans.map((span) => text(span.stage)).join(", ")}
            >
              {TICKS.map((share) => (
                <line key={share} className="time-tick" x1={share * 100} x2={share * 100} y2="4" />
              ))}
              {spans.map((span) => (
                <rect
                  key={span.stage}
                  x={span.from * 100}
                  width={Math.max(0.4, (span.to - span.from) * 100)}
                  height="4"
                  fill={STAGE_COLORS[span.stage]}
                />
              ))}
            </svg>
          </div>
        ))}
      </Stack>
      <div className="time-ticks" aria-hidden="true">
        {TICKS.map((share) => (
          <span key={share}>{formats.milliseconds(share * lengthMs)}</span>
        ))}
      </div>
      <Group gap="md" mt="xs">
        {(["waiting", "accepted", "running"] as const).map((stage) => (
          <Group key={stage} gap={6}>
            <svg width="10" height="10" aria-hidden="true">
              <rect width="10" height="10" fill={STAGE_COLORS[stage]} />
            </svg>
            <Text size="xs">{text(stage)}</Text>
          </Group>
        ))}
      </Group>
    </Card>
  );
}
