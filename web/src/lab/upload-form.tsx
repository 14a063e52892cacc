import { Button, Card, FileInput, Group, Progress, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { useFormats } from "../app/formats";
import { ProblemAlert } from "../app/page-problems";
import { useText } from "../messages/text";
import { upload, type Imported } from "./upload";

const ACCEPTED = ".jsonl,.csv,.parquet,.zip";

interface UploadFormProps {
  /** Where the file is sent. */
  path: string;
  /** Whether it becomes a dataset of its own, which needs a name. */
  isNew?: boolean;
  onDone: (imported: Imported) => void;
}

/** A file that becomes a dataset, or the next version of one. */
export function UploadForm({ path, isNew = false, onDone }: UploadFormProps) {
  const text = useText();
  const formats = useFormats();
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState("");
  const [audio, setAudio] = useState("");
  const [sent, setSent] = useState<number | null>(null);
  const sending = useMutation({
    mutationFn: (chosen: File) => {
      const form = new FormData();
      if (isNew) form.set("name", name.trim());
      if (audio.trim() !== "") form.set("audio", audio.trim());
      form.set("file", chosen);
      return upload({ path, form, onSent: setSent });
    },
    onSettled: () => {
      setSent(null);
    },
    onSuccess: (imported) => {
      setFile(null);
      onDone(imported);
    },
  });
  return (
    <Card withBorder>
      <Title order={2} size="h4">
        {text(isNew ? "newDataset" : "newVersion")}
      </Title>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (file !== null) sending.mutate(file);
        }}
      >
        <Stack gap="xs">
          <Group align="end">
            <FileInput
              label={text("file")}
              description={text("fileHint")}
              placeholder={text("chooseFile")}
              accept={ACCEPTED}
              value={file}
              onChange={(chosen) => {
                setFile(chosen);
                if (name === "" && chosen !== null) setName(chosen.name.replace(/\.\w+$/, ""));
              }}
            />
            {isNew && (
              <TextInput
                label={text("name")}
                required
                value={name}
                onChange={(event) => {
                  setName(event.currentTarget.value);
                }}
              />
            )}
            <TextInput
              label={text("audioColumns")}
              placeholder="recording"
              value={audio}
              onChange={(event) => {
                setAudio(event.currentTarget.value);
              }}
            />
            <Button type="submit" disabled={file === null} loading={sending.isPending}>
              {text("upload")}
            </Button>
          </Group>
          {sent !== null && (
            <>
              <Progress value={100 * sent} aria-label={text("upload")} />
              <Text size="sm" role="status">
                {sent < 1 ? text("sent", { share: formats.percent(sent) }) : text("beingImported")}
              </Text>
            </>
          )}
          {sending.error && <ProblemAlert error={sending.error} />}
        </Stack>
      </form>
    </Card>
  );
}
