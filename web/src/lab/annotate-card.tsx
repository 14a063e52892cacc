import { Button, Card, Group, Kbd, NativeSelect, Stack, Text, Textarea, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { answerOf, api } from "../api/client";
import { useMe } from "../api/identity";
import { queryClient } from "../api/queries";
import { usePageKeys } from "../app/page-keys";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { scoreNames } from "./row-fields";
import { itemQuery, rowsKey } from "./rows-query";
import type { Experiment, ResultRow } from "./types";

const SCORES = [1, 2, 3, 4, 5] as const;
/** What a person judges where the experiment has no score to say whether it is right. */
const OWN_NAME = "quality";

/** Who says it, where callers need no key. */
const ANYONE = "anyone";

interface Said {
  label?: string | null;
  score?: number | null;
  correction?: string | null;
}

interface AnnotateCardProps {
  experiment: Experiment;
  row: ResultRow;
  /** What is judged; null: the first thing that can be. */
  judged: string | null;
  onJudge: (name: string) => void;
}

/** What the reader thinks of the row, said with single keys. */
export function AnnotateCard({ experiment, row, judged, onJudge }: AnnotateCardProps) {
  const text = useText();
  const annotator = useMe()?.key_id ?? ANYONE;
  const names = [...new Set([...scoreNames(experiment), OWN_NAME])];
  const name = judged ?? names[0] ?? OWN_NAME;
  const [correction, setCorrection] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const { item_id, turn, repetition } = row;
  const id = experiment.experiment_id;
  const { queryKey } = itemQuery(id, item_id, repetition);
  const said = saidBefore(row, name, annotator);
  const saying = useMutation({
    // One after the other: each adds to what was said before, which the server replaces.
    scope: { id: "annotations" },
    mutationFn: (more: Said) => {
      const now = queryClient.getQueryData(queryKey)?.find((one) => one.turn === turn) ?? row;
      return answerOf(
        api.POST("/api/v1/experiments/{experiment_id}/annotations", {
          params: { path: { experiment_id: id } },
          body: { item_id, turn, repetition, name, ...saidBefore(now, name, annotator), ...more },
        }),
      );
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey });
      void queryClient.invalidateQueries({ queryKey: [...rowsKey(id), "list"] });
    },
  });
  const say = (more: Said) => () => {
    saying.mutate(more);
  };
  usePageKeys([
    { key: "p", meaning: "pass", act: say({ label: "pass" }) },
    { key: "f", meaning: "fail", act: say({ label: "fail" }) },
    ...SCORES.map((score) => ({
      key: String(score),
      meaning: "score" as const,
      act: say({ score }),
    })),
    { key: "c", meaning: "correctionWithKey", act: () => field.current?.focus() },
  ]);
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text("annotate")}
      </Title>
      <Stack gap="xs">
        <Group align="end">
          <NativeSelect
            label={text("whatIsJudged")}
            data={names}
            value={name}
            onChange={(event) => {
              onJudge(event.currentTarget.value);
            }}
          />
          <Button
            variant={said.label === "pass" ? "filled" : "default"}
            aria-pressed={said.label === "pass"}
            onClick={say({ label: "pass" })}
          >
            {text("pass")}&nbsp;<Kbd>p</Kbd>
          </Button>
          <Button
            variant={said.label === "fail" ? "filled" : "default"}
            aria-pressed={said.label === "fail"}
            onClick={say({ label: "fail" })}
          >
            {text("fail")}&nbsp;<Kbd>f</Kbd>
          </Button>
          <Group gap={4} role="group" aria-label={text("score")}>
            {SCORES.map((score) => (
              <Button
                key={score}
                variant={said.score === score ? "filled" : "default"}
                aria-pressed={said.score === score}
                px="sm"
                onClick={say({ score })}
              >
                {score}
              </Button>
            ))}
          </Group>
        </Group>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            say({ correction })();
            setCorrection("");
          }}
        >
          <Group align="end">
            <Textarea
              ref={field}
              className="grow"
              label={text("correctionWithKey")}
              autosize
              minRows={1}
              value={correction}
              onChange={(event) => {
                setCorrection(event.currentTarget.value);
              }}
              onKeyDown={(event) => {
                if (event.key === "Escape") event.currentTarget.blur();
              }}
            />
            <Button type="submit" variant="default" disabled={correction.trim() === ""}>
              {text("save")}
            </Button>
          </Group>
        </form>
        {saying.isSuccess && <Text role="status">{text("saved")}</Text>}
        {saying.error && <ProblemAlert error={saying.error} />}
      </Stack>
    </Card>
  );
}

/** What this person has said of the row under this name. */
function saidBefore(row: ResultRow, name: string, annotator: string): Said {
  const found = row.annotations.find((one) => one.name === name && one.annotator === annotator);
  return {
    label: found?.label ?? null,
    score: found?.score ?? null,
    correction: found?.correction ?? null,
  };
}
