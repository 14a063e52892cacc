import { Alert, Anchor, Card, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { hourSum } from "./hour";
import { HourChart } from "./hour-chart";
import { useHistory } from "./use-history";

/** The fleet's last hour, and the pairs that were busiest in it. */
export function FleetHour() {
  const text = useText();
  const formats = useFormats();
  const history = useHistory("pair");
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("lastHour")}
      </Title>
      {history.error && <ProblemAlert error={history.error} />}
      {history.data && (
        <>
          <NotAll instances={history.data.unreachable} />
          <HourChart beganAt={history.data.began_at} series={history.data.total} />
          {history.data.items.length > 0 && (
            <Table.ScrollContainer minWidth={420}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>{text("pair")}</Table.Th>
                    <Table.Th className="figure">{text("jobs")}</Table.Th>
                    <Table.Th className="figure">{text("failures")}</Table.Th>
                    <Table.Th className="figure">{text("refusedJobs")}</Table.Th>
                    <Table.Th className="figure">{text("meanTime")}</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {history.data.items.map(({ name, series }) => {
                    const sum = hourSum(series);
                    return (
                      <Table.Tr key={name}>
                        <Table.Td>
                          <Anchor
                            size="sm"
                            renderRoot={(props) => (
                              <Link to="/nodes" search={{ pair: name }} {...props} />
                            )}
                          >
                            {name}
                          </Anchor>
                        </Table.Td>
                        <Table.Td className="number figure">{formats.number(sum.jobs)}</Table.Td>
                        <Table.Td className="number figure">{formats.number(sum.failed)}</Table.Td>
                        <Table.Td className="number figure">{formats.number(sum.refused)}</Table.Td>
                        <Table.Td className="number figure">
                          {sum.meanMs === null ? "–" : formats.milliseconds(sum.meanMs)}
                        </Table.Td>
                      </Table.Tr>
                    );
                  })}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          )}
        </>
      )}
    </Card>
  );
}

/** One node's last hour. */
export function NodeHour({ nodeId }: { nodeId: string }) {
  const text = useText();
  const history = useHistory("node", nodeId);
  const item = history.data?.items[0];
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("lastHour")}
      </Title>
      {history.error && <ProblemAlert error={history.error} />}
      {history.data && <NotAll instances={history.data.unreachable} />}
      {history.data && item === undefined && <Text c="dimmed">{text("noJobsInHour")}</Text>}
      {history.data && item !== undefined && (
        <HourChart beganAt={history.data.began_at} series={item.series} />
      )}
    </Card>
  );
}

function NotAll({ instances }: { instances: readonly string[] }) {
  const text = useText();
  if (instances.length === 0) return null;
  return (
    <Alert color="orange" variant="outline" role="alert">
      {text("notAllAnswered", { instances: instances.join(" ") })}
    </Alert>
  );
}
