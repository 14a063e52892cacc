import {
  Alert,
  Button,
  Card,
  Group,
  NativeSelect,
  SimpleGrid,
  Stack,
  Stepper,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { Loading } from "../app/loading";
import { ProblemAlert } from "../app/page-problems";
import { PageTitle } from "../app/page-title";
import { useText } from "../messages/text";
import { columnNames } from "./datasets-page";
import { DryRun } from "./dry-run";
import { LabNavigation } from "./lab-navigation";
import { EMPTY_DRAFT, orderOf, SCORE_NAME, type Chosen, type Draft, type Kind } from "./new-experiment";
import { SettingsFields } from "./settings-fields";
import { SettingProblem, settingsOf } from "./settings-schema";
import type { Dataset } from "./types";

const LISTED = 500;
const LAST_STEP = 3;
/** Hints stand below their fields, so that the fields of a row stand in one line. */
const BELOW: ("label" | "input" | "description" | "error")[] = ["label", "input", "description", "error"];

/** A new experiment, step by step: data, target, evaluators, a try on three rows. */
export function NewExperimentPage() {
  const text = useText();
  const [draft, setDraft] = useState<Draft>(EMPTY_DRAFT);
  const [step, setStep] = useState(0);
  const datasets = useQuery({
    queryKey: ["datasets", "all"],
    queryFn: () => answerOf(api.GET("/api/v1/datasets", { params: { query: { limit: LISTED } } })),
  });
  const targets = useQuery({
    queryKey: ["targets"],
    queryFn: () => answerOf(api.GET("/api/v1/targets")),
    staleTime: Infinity,
  });
  const evaluators = useQuery({
    queryKey: ["evaluators"],
    queryFn: () => answerOf(api.GET("/api/v1/evaluators")),
    staleTime: Infinity,
  });
  const error = datasets.error ?? targets.error ?? evaluators.error;
  if (error) return <ProblemAlert error={error} />;
  if (!datasets.data || !targets.data || !evaluators.data) return <Loading />;
  const dataset = datasets.data.items.find((one) => one.latest.version_id === draft.versionId);
  const columns = columnNames(dataset?.latest.schema ?? {});
  const change = (changed: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...changed }));
  };
  const isReady = [
    draft.name.trim() !== "" && draft.versionId !== "",
    draft.target.kind !== "",
    true,
    true,
  ];
  return (
    <Stack>
      <PageTitle>{text("newExperiment")}</PageTitle>
      <LabNavigation />
      <Stepper
        active={step}
        size="sm"
        onStepClick={(chosen) => {
          if (isReady.slice(0, chosen).every(Boolean)) setStep(chosen);
        }}
      >
        <Stepper.Step label={text("dataset")} />
        <Stepper.Step label={text("target")} />
        <Stepper.Step label={text("evaluators")} />
        <Stepper.Step label={text("tryAndStart")} />
      </Stepper>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady[step]) setStep(step + 1);
        }}
      >
        <Stack>
          {step === 0 && (
            <DatasetStep draft={draft} datasets={datasets.data.items} onChange={change} />
          )}
          {step === 1 && (
            <TargetStep
              chosen={draft.target}
              kinds={targets.data.items}
              columns={columns}
              onChange={(target) => {
                change({ target });
              }}
            />
          )}
          {step === 2 && (
            <EvaluatorsStep
              draft={draft}
              kinds={evaluators.data.items}
              columns={columns}
              onChange={change}
            />
          )}
          {step < LAST_STEP && (
            <Group>
              <Button
                variant="default"
                disabled={step === 0}
                onClick={() => {
                  setStep(step - 1);
                }}
              >
                {text("cancel")}
              </Button>
              <Button type="submit" disabled={!isReady[step]}>
                {text("nextStep")}
              </Button>
            </Group>
          )}
        </Stack>
      </form>
      {step === LAST_STEP && (
        <LastStep
          draft={draft}
          targets={targets.data.items}
          evaluators={evaluators.data.items}
          onChange={change}
          onBack={() => {
            setStep(LAST_STEP - 1);
          }}
        />
      )}
    </Stack>
  );
}

interface DatasetStepProps {
  draft: Draft;
  datasets: readonly Dataset[];
  onChange: (changed: Partial<Draft>) => void;
}

function DatasetStep({ draft, datasets, onChange }: DatasetStepProps) {
  const text = useText();
  if (datasets.length === 0) return <Text>{text("noDatasetToTry")}</Text>;
  return (
    <Group align="end">
      <TextInput
        label={text("name")}
        required
        value={draft.name}
        onChange={(event) => {
          onChange({ name: event.currentTarget.value });
        }}
      />
      <NativeSelect
        label={text("dataset")}
        required
        value={draft.versionId}
        data={[
          { value: "", label: "–" },
          ...datasets.map((one) => ({
            value: one.latest.version_id,
            label: `${one.name} (${one.latest.version})`,
          })),
        ]}
        onChange={(event) => {
          onChange({ versionId: event.currentTarget.value });
        }}
      />
    </Group>
  );
}

interface TargetStepProps {
  chosen: Chosen;
  kinds: readonly Kind[];
  columns: readonly string[];
  onChange: (chosen: Chosen) => void;
}

function TargetStep({ chosen, kinds, columns, onChange }: TargetStepProps) {
  const text = useText();
  return (
    <Stack>
      <NativeSelect
        label={text("kindOfTarget")}
        required
        maw={320}
        value={chosen.kind}
        data={["", ...usable(kinds)]}
        onChange={(event) => {
          onChange({ key: chosen.key, kind: event.currentTarget.value, written: {} });
        }}
      />
      <SettingsFields
        settings={settingsOf(schemaOf(chosen, kinds))}
        written={chosen.written}
        columns={columns}
        onWrite={(name, value) => {
          onChange({ ...chosen, written: { ...chosen.written, [name]: value } });
        }}
      />
    </Stack>
  );
}

interface EvaluatorsStepProps {
  draft: Draft;
  kinds: readonly Kind[];
  columns: readonly string[];
  onChange: (changed: Partial<Draft>) => void;
}

function EvaluatorsStep({ draft, kinds, columns, onChange }: EvaluatorsStepProps) {
  const text = useText();
  const [kind, setKind] = useState("");
  const { evaluators } = draft;
  const replace = (key: number, changed: Chosen | null) => {
    onChange({
      evaluators: evaluators.flatMap((one) => {
        if (one.key !== key) return [one];
        return changed === null ? [] : [changed];
      }),
    });
  };
  return (
    <Stack>
      {evaluators.map((chosen) => (
        <Card withBorder key={chosen.key}>
          <Group justify="space-between">
            <Title order={2} size="h5">
              {chosen.kind}
            </Title>
            <Button
              variant="default"
              size="xs"
              onClick={() => {
                replace(chosen.key, null);
              }}
            >
              {text("removeEvaluator", { name: chosen.kind })}
            </Button>
          </Group>
          <SettingsFields
            settings={[SCORE_NAME, ...settingsOf(schemaOf(chosen, kinds))]}
            written={chosen.written}
            columns={columns}
            onWrite={(name, value) => {
              replace(chosen.key, { ...chosen, written: { ...chosen.written, [name]: value } });
            }}
          />
        </Card>
      ))}
      <Group align="end">
        <NativeSelect
          label={text("kindOfEvaluator")}
          value={kind}
          data={["", ...usable(kinds)]}
          onChange={(event) => {
            setKind(event.currentTarget.value);
          }}
        />
        <Button
          variant="default"
          disabled={kind === ""}
          onClick={() => {
            const key = 1 + Math.max(0, ...evaluators.map((one) => one.key));
            onChange({ evaluators: [...evaluators, { key, kind, written: {} }] });
            setKind("");
          }}
        >
          {text("addEvaluator")}
        </Button>
      </Group>
    </Stack>
  );
}

interface LastStepProps {
  draft: Draft;
  targets: readonly Kind[];
  evaluators: readonly Kind[];
  onChange: (changed: Partial<Draft>) => void;
  onBack: () => void;
}

function LastStep({ draft, targets, evaluators, onChange, onBack }: LastStepProps) {
  const text = useText();
  const navigate = useNavigate();
  const order = () => orderOf(draft, targets, evaluators);
  const trying = useMutation({
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/estimate", { body: order() })),
  });
  const starting = useMutation({
    mutationFn: () => answerOf(api.POST("/api/v1/experiments/submit", { body: order() })),
    onSuccess: ({ experiment_id }) => {
      void navigate({
        to: "/lab/experiments/$experimentId",
        params: { experimentId: experiment_id },
      });
    },
  });
  const error = starting.error ?? trying.error;
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        <TextInput
          label={text("concurrency")}
          type="number"
          min={1}
          placeholder={text("asTheServerHasIt")}
          value={draft.concurrency}
          onChange={(event) => {
            onChange({ concurrency: event.currentTarget.value });
          }}
        />
        <TextInput
          label={text("mostTokens")}
          description={text("budgetHint")}
          inputWrapperOrder={BELOW}
          type="number"
          min={0}
          value={draft.tokens}
          onChange={(event) => {
            onChange({ tokens: event.currentTarget.value });
          }}
        />
        <TextInput
          label={text("mostCost")}
          type="number"
          min={0}
          step="any"
          value={draft.cost}
          onChange={(event) => {
            onChange({ cost: event.currentTarget.value });
          }}
        />
        <TextInput
          label={text("cron")}
          description={text("cronHint")}
          inputWrapperOrder={BELOW}
          placeholder="30 2 * * mon-fri"
          value={draft.cron}
          onChange={(event) => {
            onChange({ cron: event.currentTarget.value });
          }}
        />
        {draft.cron !== "" && (
          <TextInput
            label={text("timezone")}
            value={draft.timezone}
            onChange={(event) => {
              onChange({ timezone: event.currentTarget.value });
            }}
          />
        )}
      </SimpleGrid>
      <Group align="end">
        <Button variant="default" onClick={onBack}>
          {text("cancel")}
        </Button>
        <Button
          variant="default"
          loading={trying.isPending}
          onClick={() => {
            trying.mutate();
          }}
        >
          {text("tryThreeRows")}
        </Button>
        <Button
          loading={starting.isPending}
          onClick={() => {
            starting.mutate();
          }}
        >
          {text("start")}
        </Button>
      </Group>
      {error instanceof SettingProblem ? (
        <Alert color="red" variant="outline" role="alert" title={text("somethingFailed")}>
          {text("noJson", { setting: error.setting })}
        </Alert>
      ) : (
        error && <ProblemAlert error={error} />
      )}
      {trying.data && <DryRun rehearsal={trying.data} />}
    </Stack>
  );
}

/** The kinds that can be used here. */
function usable(kinds: readonly Kind[]): string[] {
  return kinds.filter(({ problem }) => problem == null).map(({ kind }) => kind);
}

function schemaOf(chosen: Chosen, kinds: readonly Kind[]): Readonly<Record<string, unknown>> {
  return kinds.find(({ kind }) => kind === chosen.kind)?.schema ?? {};
}
