import { Anchor, Button, Group, Stack, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";

/** The tenant's newest jobs, and the way to any job by its id. */
export function JobsPage() {
  const text = useText();
  const navigate = useNavigate();
  const [wanted, setWanted] = useState("");
  const jobs = useInfiniteQuery({
    queryKey: ["jobs"],
    queryFn: ({ pageParam }) =>
      answerOf(
        api.GET("/api/v1/jobs", {
          params: { query: { result_audio: "omit", ...(pageParam && { cursor: pageParam }) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const rows = jobs.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Stack>
      <PageTitle>{text("jobs")}</PageTitle>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void navigate({ to: "/jobs/$jobId", params: { jobId: wanted.trim() } });
        }}
      >
        <Group align="end">
          <TextInput
            {...SEARCH_FIELD}
            label={text("jobId")}
            required
            value={wanted}
            onChange={(event) => {
              setWanted(event.currentTarget.value);
            }}
          />
          <Button type="submit" variant="default">
            {text("open")}
          </Button>
          <Button
            variant="default"
            loading={jobs.isFetching}
            onClick={() => {
              void jobs.refetch();
            }}
          >
            {text("reload")}
          </Button>
        </Group>
      </form>
      {jobs.isPending && <Loading />}
      {jobs.error && <ProblemAlert error={jobs.error} />}
      {jobs.data && rows.length === 0 && <Text>{text("noJobs")}</Text>}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={600}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("job")}</Table.Th>
                <Table.Th>{text("pair")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th>{text("outcome")}</Table.Th>
                <Table.Th>{text("attempts")}</Table.Th>
                <Table.Th>{text("node")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((job) => (
                <Table.Tr key={job.job_id}>
                  <Table.Td>
                    <Anchor
                      size="sm"
                      renderRoot={(props) => (
                        <Link to="/jobs/$jobId" params={{ jobId: job.job_id }} {...props} />
                      )}
                    >
                      {job.job_id}
                    </Anchor>
                  </Table.Td>
                  <Table.Td>{`${job.src_lang}:${job.tgt_lang}`}</Table.Td>
                  <Table.Td>{job.state}</Table.Td>
                  <Table.Td>{job.error?.code ?? job.outcome ?? "–"}</Table.Td>
                  <Table.Td className="number">{job.attempts.length}</Table.Td>
                  <Table.Td>{job.node_id ?? "–"}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {jobs.hasNextPage && (
        <Button
          variant="default"
          onClick={() => {
            void jobs.fetchNextPage();
          }}
        >
          {text("showMore")}
        </Button>
      )}
    </Stack>
  );
}
