import { expect, test } from "vitest";

import { filteredJobs } from "./job-filter";

const job = (job_id: string, tgt_lang: string, node_id: string | null) => ({
  job_id,
  src_lang: "en",
  tgt_lang,
  state: "FINISHED" as const,
  outcome: null,
  error: null,
  node_id,
});
const JOBS = [job("j-1", "es", "n-a"), job("j-2", "fr", "n-b"), job("j-3", "es", null)];
const found = (written: string) => filteredJobs(JOBS, written).map(({ job_id }) => job_id);

test("a job is found by its pair, its node, its state and its id, and every word must be there", () => {
  expect(found("en:es")).toEqual(["j-1", "j-3"]);
  expect(found("EN:ES n-a")).toEqual(["j-1"]);
  expect(found("finished j-2")).toEqual(["j-2"]);
  expect(found("")).toEqual(["j-1", "j-2", "j-3"]);
  expect(found("nothing")).toEqual([]);
});
