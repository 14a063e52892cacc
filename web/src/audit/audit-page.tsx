import { Button, Code, Group, NativeSelect, Stack, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { PageTitle } from "../app/page-title";
import type { MessageKey } from "../messages/text";
import { useText } from "../messages/text";
import { auditQueryOf, NOTHING_ASKED, type AuditQuestion } from "./audit-query";

const OUTCOMES = {
  done: "auditDone",
  refused: "auditRefused",
  failed: "auditFailed",
} as const satisfies Record<string, MessageKey>;

/** What operators did: who, what, when, and how it ended. */
export function AuditPage() {
  const text = useText();
  const formats = useFormats();
  const [asked, setAsked] = useState<AuditQuestion>(NOTHING_ASKED);
  const [written, setWritten] = useState<AuditQuestion>(NOTHING_ASKED);
  const entries = useInfiniteQuery({
    queryKey: ["audit", asked],
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/audit", { params: { query: auditQueryOf(asked, pageParam) } }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const rows = entries.data?.pages.flatMap((page) => page.items) ?? [];
  const field = (name: "actor" | "action" | "subject") => ({
    label: text(AUDIT_FIELDS[name]),
    value: written[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      setWritten({ ...written, [name]: event.currentTarget.value });
    },
  });
  return (
    <Stack>
      <PageTitle>{text("audit")}</PageTitle>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setAsked(written);
          void entries.refetch();
        }}
      >
        <Group align="end">
          <TextInput {...SEARCH_FIELD} {...field("actor")} />
          <TextInput {...field("action")} placeholder="node.drain" />
          <TextInput {...field("subject")} />
          <NativeSelect
            label={text("outcome")}
            value={written.outcome}
            onChange={(event) => {
              setWritten({ ...written, outcome: event.currentTarget.value });
            }}
            data={[
              { value: "", label: text("auditAnyOutcome") },
              ...Object.entries(OUTCOMES).map(([value, key]) => ({ value, label: text(key) })),
            ]}
          />
          <Button type="submit" variant="default" loading={entries.isFetching}>
            {text("apply")}
          </Button>
        </Group>
      </form>
      {entries.isPending && <Loading />}
      {entries.error && <ProblemAlert error={entries.error} />}
      {entries.data && rows.length === 0 && <Text>{text("noAudit")}</Text>}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={900}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("time")}</Table.Th>
                <Table.Th>{text("auditActor")}</Table.Th>
                <Table.Th>{text("auditAction")}</Table.Th>
                <Table.Th>{text("auditSubject")}</Table.Th>
                <Table.Th>{text("outcome")}</Table.Th>
                <Table.Th>{text("auditAddress")}</Table.Th>
                <Table.Th>{text("auditFacts")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((entry) => (
                <Table.Tr key={entry.entry_id}>
                  <Table.Td>{formats.time(entry.at)}</Table.Td>
                  <Table.Td>
                    {entry.role === null ? entry.actor : `${entry.actor} (${entry.role})`}
                  </Table.Td>
                  <Table.Td>{entry.action}</Table.Td>
                  <Table.Td>{entry.subject || "–"}</Table.Td>
                  <Table.Td>{text(OUTCOMES[entry.outcome])}</Table.Td>
                  <Table.Td>{entry.address || "–"}</Table.Td>
                  <Table.Td>
                    <Code>{JSON.stringify(entry.facts)}</Code>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {entries.hasNextPage && (
        <Button
          variant="default"
          onClick={() => {
            void entries.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </Stack>
  );
}

const AUDIT_FIELDS = {
  actor: "auditActor",
  action: "auditAction",
  subject: "auditSubject",
} as const satisfies Record<string, MessageKey>;
