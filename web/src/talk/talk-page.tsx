import { Alert, Button, Card, Group, MultiSelect, Progress, Stack, Switch, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { answerOf, api } from "../api/client";
import { useFormats } from "../app/formats";
import { saveFile } from "../app/save-file";
import { SEARCH_FIELD } from "../app/shortcuts";
import { useText } from "../messages/text";
import { Conversation, type ConversationView } from "./conversation";
import { hasMicrophone } from "./microphone";
import { TRANSCRIPT_FORMATS, transcriptFile, type Line, type TranscriptFormat } from "./transcript";

const NOTHING_YET: ConversationView = {
  lines: [],
  state: "closed",
  isListening: false,
  level: 0,
  problem: null,
};

/** Speak or write, and read and hear it in other languages. */
export function TalkPage() {
  const text = useText();
  const [srcLang, setSrcLang] = useState("en");
  const [tgtLangs, setTgtLangs] = useState<string[]>(["es"]);
  const [speaks, setSpeaks] = useState(true);
  const [said, setSaid] = useState("");
  const [view, setView] = useState(NOTHING_YET);
  const conversation = useRef<Conversation | null>(null);
  const served = useQuery({ queryKey: ["pools"], queryFn: servedLanguages, retry: false });
  const known = [...new Set([...(served.data ?? []), ...tgtLangs])].sort();

  useEffect(
    () => () => {
      void conversation.current?.end();
    },
    [],
  );

  const begun = () => {
    const asked = { srcLang, tgtLangs, speaks };
    if (!conversation.current?.isFor(asked)) {
      void conversation.current?.end();
      conversation.current = new Conversation(asked, setView, view.lines);
    }
    return conversation.current;
  };
  return (
    <Stack>
      <Title order={1}>{text("talk")}</Title>
      <Group align="end">
        <TextInput
          label={text("from")}
          w={90}
          value={srcLang}
          onChange={(event) => {
            setSrcLang(event.currentTarget.value);
          }}
        />
        <MultiSelect label={text("to")} data={known} value={tgtLangs} onChange={setTgtLangs} searchable />
        <Switch
          label={text("playSpeech")}
          checked={speaks}
          onChange={(event) => {
            setSpeaks(event.currentTarget.checked);
          }}
        />
      </Group>
      {hasMicrophone() ? (
        <Group>
          <Button
            color={view.isListening ? "red" : "blue"}
            disabled={tgtLangs.length === 0}
            onClick={() => {
              void begun().toggleMicrophone();
            }}
          >
            {text(view.isListening ? "stopMicrophone" : "startMicrophone")}
          </Button>
          <Progress w={160} value={view.level * 400} aria-label={text("level")} />
        </Group>
      ) : (
        <Alert variant="outline" title={text("noMicrophone")}>
          {text("noMicrophoneHint")}
        </Alert>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          begun().say(said);
          setSaid("");
        }}
      >
        <Group align="end">
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
          <Button type="submit" disabled={tgtLangs.length === 0}>
            {text("send")}
          </Button>
        </Group>
      </form>
      <Text size="sm" role="status">
        {view.state === "resuming" ? text("resuming") : ""}
      </Text>
      {view.problem !== null && (
        <Alert color="red" variant="outline" role="alert" title={text("somethingFailed")}>
          {view.problem}
        </Alert>
      )}
      {view.lines.map((line) => (
        <LineCard key={line.id} line={line} />
      ))}
      {view.lines.length > 0 && (
        <Group>
          {TRANSCRIPT_FORMATS.map((format) => (
            <Button
              key={format}
              variant="default"
              size="xs"
              onClick={() => {
                download(view.lines, format);
              }}
            >
              {text("downloadAs", { format: format.toUpperCase() })}
            </Button>
          ))}
        </Group>
      )}
    </Stack>
  );
}

function LineCard({ line }: { line: Line }) {
  const formats = useFormats();
  return (
    <Card withBorder padding="sm">
      <Text {...(line.isPartial && { c: "dimmed", fs: "italic" })}>{line.said || "…"}</Text>
      {Object.entries(line.translations).map(([language, translation]) => (
        <div key={language}>
          {translation.text === null ? (
            <Text c="red">{translation.missing}</Text>
          ) : (
            <Text fw={600} lang={language}>
              {translation.text}
            </Text>
          )}
          <Text size="xs" c="dimmed" className="number">
            {[
              language,
              ...Object.entries(translation.timings).flatMap(([stage, ms]) =>
                ms === null ? [] : [`${stage.replace(/_ms$/, "")} ${formats.milliseconds(ms)}`],
              ),
              ...(translation.totalMs === null ? [] : [`= ${formats.milliseconds(translation.totalMs)}`]),
            ].join(" · ")}
          </Text>
        </div>
      ))}
    </Card>
  );
}

/** Languages that the fleet can be heard in, where the reader may see them. */
async function servedLanguages(): Promise<string[]> {
  const pools = await answerOf(api.GET("/api/v1/pools", { params: { query: { limit: 1000 } } }));
  return [...new Set(pools.items.flatMap(({ pair }) => pair.split(":").slice(1)))];
}

function download(lines: readonly Line[], format: TranscriptFormat): void {
  saveFile(`conversation.${format}`, transcriptFile(lines, format));
}
