import { Anchor, Button, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { answerOf, api } from "../api/client";
import { useMayAct } from "../api/identity";
import { queryClient } from "../api/queries";
import { ConfirmedAction } from "../app/confirmed-action";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { endSession } from "./end-session";
import { SessionStatus } from "./job-marks";
import { changedSessions } from "./session-changes";
import { useSessionNews } from "./use-session-news";

const SESSIONS = ["sessions"] as const;

/** Open sessions of every instance; none of what was said in them. */
export function SessionsPage() {
  const text = useText();
  const formats = useFormats();
  const mayAct = useMayAct("sessions");
  const sessions = useInfiniteQuery({
    queryKey: SESSIONS,
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/sessions", { params: { query: pageParam ? { cursor: pageParam } : {} } }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    refetchOnMount: "always",
  });
  useSessionNews((news) => {
    // An answer that is on its way may be older than the news.
    if (news.again || queryClient.isFetching({ queryKey: SESSIONS }) > 0) {
      void queryClient.invalidateQueries({ queryKey: SESSIONS });
      return;
    }
    queryClient.setQueryData<typeof sessions.data>(
      SESSIONS,
      (read) => read && { ...read, pages: changedSessions(read.pages, news) },
    );
  });
  const rows = sessions.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageTitle>{text("sessions")}</PageTitle>
      {sessions.isPending && <Loading />}
      {sessions.error && <ProblemAlert error={sessions.error} />}
      {sessions.data && rows.length === 0 && <Text>{text("noSessions")}</Text>}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={700}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("session")}</Table.Th>
                <Table.Th>{text("tenant")}</Table.Th>
                <Table.Th>{text("languages")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th className="figure">{text("utterances")}</Table.Th>
                <Table.Th className="figure">{text("inFlight")}</Table.Th>
                <Table.Th>{text("instance")}</Table.Th>
                {mayAct && <Table.Td />}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((session) => (
                <Table.Tr key={session.session_id}>
                  <Table.Td>
                    <Anchor
                      size="sm"
                      renderRoot={(props) => (
                        <Link
                          to="/sessions/$sessionId"
                          params={{ sessionId: session.session_id }}
                          {...props}
                        />
                      )}
                    >
                      {session.session_id}
                    </Anchor>
                  </Table.Td>
                  <Table.Td>{session.tenant_id}</Table.Td>
                  <Table.Td className="one-line">{`${session.src_lang} → ${session.tgt_langs.join(" ")}`}</Table.Td>
                  <Table.Td>
                    <SessionStatus state={session.state} />
                  </Table.Td>
                  <Table.Td className="number figure">{formats.number(session.utterances)}</Table.Td>
                  <Table.Td className="number figure">{formats.number(session.in_flight)}</Table.Td>
                  <Table.Td>{session.instance_id}</Table.Td>
                  {mayAct && (
                    <Table.Td>
                      <ConfirmedAction
                        label={text("endSession")}
                        consequence={text("endSessionConsequence", { session: session.session_id })}
                        color="red"
                        act={() => endSession(session.session_id)}
                        onDone={() => {
                          void queryClient.invalidateQueries({ queryKey: SESSIONS });
                        }}
                      />
                    </Table.Td>
                  )}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {sessions.hasNextPage && (
        <Button
          variant="default"
          onClick={() => {
            void sessions.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </Stack>
  );
}
