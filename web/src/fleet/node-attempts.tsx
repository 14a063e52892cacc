import { Alert, Anchor, Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { AttemptState } from "./job-marks";

/** What the node works on now; asked anew whenever the node changes. */
export function NodeAttempts({ nodeId }: { nodeId: string }) {
  const text = useText();
  const formats = useFormats();
  const attempts = useQuery({
    queryKey: ["node", nodeId, "attempts"],
    queryFn: () =>
      answerOf(api.GET("/api/v1/attempts", { params: { query: { node_id: nodeId } } })),
  });
  const { items = [], unreachable = [] } = attempts.data ?? {};
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("worksOn")}
      </Title>
      {attempts.error && <ProblemAlert error={attempts.error} />}
      {unreachable.length > 0 && (
        <Alert color="orange" variant="outline" role="alert">
          {text("notAllAnswered", { instances: unreachable.join(" ") })}
        </Alert>
      )}
      {attempts.data && items.length === 0 && <Text c="dimmed">{text("worksOnNothing")}</Text>}
      {items.length > 0 && (
        <Table.ScrollContainer minWidth={480}>
          <Table aria-label={text("worksOn")}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("job")}</Table.Th>
                <Table.Th>{text("pair")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th>{text("since")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {items.map((one) => (
                <Table.Tr key={one.attempt_id}>
                  <Table.Td>
                    {one.job_id === null ? (
                      text("ofAnotherTenant")
                    ) : (
                      <Anchor
                        size="sm"
                        renderRoot={(props) => (
                          <Link
                            to="/jobs/$jobId"
                            params={{ jobId: one.job_id ?? "" }}
                            {...props}
                          />
                        )}
                      >
                        {one.job_id}
                      </Anchor>
                    )}
                  </Table.Td>
                  <Table.Td>{one.pair}</Table.Td>
                  <Table.Td>
                    <AttemptState state={one.state} />
                  </Table.Td>
                  <Table.Td>{formats.time(one.dispatched_at)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}
