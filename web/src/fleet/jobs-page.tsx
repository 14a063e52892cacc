import { Anchor, Button, Group, Stack, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { SEARCH_FIELD } from "../app/shortcuts";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { filteredJobs } from "./job-filter";
import { AttemptState, JobOutcome } from "./job-marks";

/** The tenant's newest jobs, and the way to any job by its id. */
export function JobsPage() {
  const text = useText();
  const navigate = useNavigate();
  const formats = useFormats();
  const [wanted, setWanted] = useState("");
  const [words, setWords] = useState("");
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
  const read = jobs.data?.pages.flatMap((page) => page.items) ?? [];
  const rows = filteredJobs(read, words);
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
      {jobs.data && read.length === 0 && <Text>{text("noJobs")}</Text>}
      {read.length > 0 && (
        <Group align="end">
          <TextInput
            {...SEARCH_FIELD}
            label={text("filter")}
            placeholder={text("filterJobsHint")}
            value={words}
            onChange={(event) => {
              setWords(event.currentTarget.value);
            }}
          />
          <Text c="dimmed" size="sm" role="status">
            {text("jobsShown", {
              count: formats.number(rows.length),
              total: formats.number(read.length),
            })}
          </Text>
        </Group>
      )}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={600}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{text("job")}</Table.Th>
                <Table.Th>{text("time")}</Table.Th>
                <Table.Th>{text("pair")}</Table.Th>
                <Table.Th>{text("state")}</Table.Th>
                <Table.Th>{text("outcome")}</Table.Th>
                <Table.Th className="figure">{text("attempts")}</Table.Th>
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
                  <Table.Td>{job.attempts[0]?.at.dispatched ? formats.time(job.attempts[0].at.dispatched) : "–"}</Table.Td>
                  <Table.Td>{`${job.src_lang}:${job.tgt_lang}`}</Table.Td>
                  <Table.Td>
                    <AttemptState state={job.state} />
                  </Table.Td>
                  <Table.Td>
                    <JobOutcome outcome={job.outcome ?? null} code={job.error?.code ?? null} />
                  </Table.Td>
                  <Table.Td className="number figure">{job.attempts.length}</Table.Td>
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
