import { Alert, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent } from "react";

import { answerOf, api } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import { ConfirmedAction } from "../app/confirmed-action";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import type { InstanceRow } from "../live/fleet-state";
import { useFleet } from "../live/use-fleet";
import { PageTitle } from "../app/page-title";
import { nameOf, useText } from "../messages/text";

const LETTERS = ["dead-letters"] as const;

/** The instances that share the fleet, and notes that none of them could handle. */
export function ClusterPage() {
  const text = useText();
  const instances = useFleet("instances");
  return (
    <Stack>
      <PageTitle>{text("cluster")}</PageTitle>
      {instances === null ? (
        <Loading />
      ) : (
        <Instances rows={instances} />
      )}
      <Disagreement />
      <DeadLetters instances={instances} />
    </Stack>
  );
}

function Instances({ rows }: { rows: readonly InstanceRow[] }) {
  const text = useText();
  const formats = useFormats();
  const nodes = rows.reduce((sum, instance) => sum + instance.nodes, 0);
  return (
    <Table.ScrollContainer minWidth={600}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{text("instance")}</Table.Th>
            <Table.Th>{text("state")}</Table.Th>
            <Table.Th className="figure">{text("nodes")}</Table.Th>
            <Table.Th className="figure">{text("shareOfNodes")}</Table.Th>
            <Table.Th className="figure">{text("sessions")}</Table.Th>
            <Table.Th className="figure">{text("inbox")}</Table.Th>
            <Table.Th className="figure">{text("deadLetters")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((instance) => (
            <Table.Tr key={instance.instance_id}>
              <Table.Td>{instance.instance_id}</Table.Td>
              <Table.Td>{text(stateOf(instance))}</Table.Td>
              <Table.Td className="number figure">{formats.number(instance.nodes)}</Table.Td>
              <Table.Td className="number figure">
                {nodes === 0 ? "–" : formats.percent(instance.nodes / nodes)}
              </Table.Td>
              <Table.Td className="number figure">{formats.number(instance.sessions)}</Table.Td>
              <Table.Td className="number figure">
                {formats.number(instance.pending)} / {formats.number(instance.inbox_length)}
              </Table.Td>
              <Table.Td className="number figure">{formats.number(instance.dead_letters)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Settings that the instances should have alike and have not. */
function Disagreement() {
  const cluster = useQuery({
    queryKey: ["cluster"],
    queryFn: () => answerOf(api.GET("/api/v1/cluster")),
  });
  if (!cluster.data?.disagreement) return null;
  return (
    <Alert color="orange" variant="outline" role="status" lang="en">
      {cluster.data.disagreement}
    </Alert>
  );
}

function stateOf(instance: InstanceRow) {
  if (!instance.alive) return "silent";
  return instance.draining ? "draining" : "alive";
}

function DeadLetters({ instances }: { instances: readonly InstanceRow[] | null }) {
  const text = useText();
  const formats = useFormats();
  const mayAct = useMayAct("cluster");
  const letters = useQuery({
    queryKey: LETTERS,
    queryFn: () => answerOf(api.GET("/api/v1/cluster/dead-letters")),
  });
  const reload = () => {
    void queryClient.invalidateQueries({ queryKey: LETTERS });
  };
  const shown = letters.data?.items.length;
  const onNews = useEffectEvent((buried: number) => {
    // The socket counts them: where it counts others than are shown, those are old.
    const isOld = letters.data?.next === null ? buried !== shown : buried < (shown ?? 0);
    if (shown !== undefined && isOld) reload();
  });
  useEffect(() => {
    if (instances !== null) onNews(instances.reduce((sum, one) => sum + one.dead_letters, 0));
  }, [instances]);
  return (
    <Stack>
      <Title order={2} size="h4">
        {text("deadLetters")}
      </Title>
      {letters.error && <ProblemAlert error={letters.error} />}
      {letters.data?.items.length === 0 && <Text c="dimmed">{text("noDeadLetters")}</Text>}
      {letters.data?.items.map((letter) => {
        const path = { params: { path: { letter_id: letter.letter_id } } };
        return (
          <Group key={letter.letter_id} justify="space-between">
            <div>
              <Text>
                {nameOf(text, `burial_${letter.reason}`, letter.reason)} · {letter.instance_id} · {formats.time(letter.buried_at)}
              </Text>
              <Text size="xs" c="dimmed" className="fact">
                {letter.letter_id}
              </Text>
              <Text size="xs" c="dimmed" className="fact">
                {JSON.stringify(letter.note)}
              </Text>
            </div>
            {mayAct && (
              <Group>
                <ConfirmedAction
                  label={text("replay")}
                  consequence={text("replayConsequence", { letter: letter.letter_id })}
                  act={() =>
                    answerOf(api.POST("/api/v1/cluster/dead-letters/{letter_id}/replay", path))
                  }
                  onDone={reload}
                />
                <ConfirmedAction
                  label={text("drop")}
                  consequence={text("dropConsequence", { letter: letter.letter_id })}
                  color="red"
                  act={() => answerOf(api.DELETE("/api/v1/cluster/dead-letters/{letter_id}", path))}
                  onDone={reload}
                />
              </Group>
            )}
          </Group>
        );
      })}
    </Stack>
  );
}
