import { Alert, Button, Group, Progress, Text, TextInput } from "@mantine/core";
import { useState } from "react";

import { saveFile } from "../app/save-file";
import { SEARCH_FIELD } from "../app/shortcuts";
import { useReading, useText } from "../messages/text";
import type { ConversationView } from "./conversation";
import { toldOf } from "./talk-problem";
import { TRANSCRIPT_FORMATS, transcriptFile, type Transcript } from "./transcript";

interface MicrophoneProps {
  view: ConversationView;
  /** Whether speech cannot begin now; who speaks can always stop. */
  disabled: boolean;
  onToggle: () => void;
}

const MICROPHONE_LABELS = {
  off: "startMicrophone",
  opening: "openingMicrophone",
  on: "stopMicrophone",
} as const;

export function MicrophoneControl({ view, disabled, onToggle }: MicrophoneProps) {
  const text = useText();
  const { microphone, level } = view;
  // A disabled button would lose the focus of those who use the keyboard.
  const isOpening = microphone === "opening";
  return (
    <Group wrap="nowrap">
      <Button
        flex="none"
        color={microphone === "on" ? "red" : "blue"}
        disabled={disabled && microphone === "off"}
        aria-disabled={isOpening}
        {...(isOpening && { "data-disabled": true })}
        onClick={isOpening ? undefined : onToggle}
      >
        {text(MICROPHONE_LABELS[microphone])}
      </Button>
      <Progress flex={1} miw={40} maw={160} value={level * 400} aria-label={text("level")} />
    </Group>
  );
}

export function NoMicrophone() {
  const text = useText();
  return (
    <Alert variant="outline" title={text("noMicrophone")}>
      {text("noMicrophoneHint")}
    </Alert>
  );
}

interface WriteFormProps {
  disabled: boolean;
  onSay: (said: string) => void;
}

/** For those who have no microphone, or rather write. */
export function WriteForm({ disabled, onSay }: WriteFormProps) {
  const text = useText();
  const [said, setSaid] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSay(said);
        setSaid("");
      }}
    >
      <Group align="end" wrap="nowrap">
        <TextInput
          {...SEARCH_FIELD}
          flex={1}
          required
          label={text("write")}
          value={said}
          onChange={(event) => {
            setSaid(event.currentTarget.value);
          }}
        />
        <Button type="submit" flex="none" disabled={disabled}>
          {text("send")}
        </Button>
      </Group>
    </form>
  );
}

interface TalkNewsProps {
  view: ConversationView;
  /** What the fleet serves, where the reader may see it. */
  served: readonly string[];
}

/** Whether the connection was lost, and what went wrong and what to do about it. */
export function TalkNews({ view, served }: TalkNewsProps) {
  const { language: reader, text } = useReading();
  const told = view.problem && toldOf(view.problem, served, text, reader);
  return (
    <>
      <Text size="sm" role="status">
        {view.state === "resuming" ? text(view.isDraining ? "serverDraining" : "resuming") : ""}
      </Text>
      {told && (
        <Alert color="red" variant="outline" role="alert" title={text("somethingFailed")}>
          {told.advice}
          <Text size="xs" c="dimmed">
            {told.detail}
          </Text>
        </Alert>
      )}
    </>
  );
}

export function TranscriptDownloads({ lines }: { lines: Transcript }) {
  const text = useText();
  if (lines.length === 0) return null;
  return (
    <Group>
      {TRANSCRIPT_FORMATS.map((format) => (
        <Button
          key={format}
          variant="default"
          size="xs"
          onClick={() => {
            saveFile(`conversation.${format}`, transcriptFile(lines, format));
          }}
        >
          {text("downloadAs", { format: format.toUpperCase() })}
        </Button>
      ))}
    </Group>
  );
}
