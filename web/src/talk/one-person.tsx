import { Group, MultiSelect, Stack, Switch, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "../api/client";
import { useText } from "../messages/text";
import { hasLanguages } from "./conversation";
import { LineCard } from "./line-card";
import { hasMicrophone } from "./microphone";
import {
  MicrophoneControl,
  NoMicrophone,
  TalkNews,
  TranscriptDownloads,
  WriteForm,
} from "./talk-controls";
import type { PauseFinder } from "./talk-search";
import { useConversation, useTalkRoom } from "./use-conversation";

/** One person speaks or writes, to any number of languages. */
export function OnePerson({ pauses }: { pauses: PauseFinder }) {
  const text = useText();
  const [srcLang, setSrcLang] = useState("en");
  const [tgtLangs, setTgtLangs] = useState<string[]>(["es"]);
  const [speaks, setSpeaks] = useState(true);
  const room = useTalkRoom();
  const asked = { srcLang, tgtLangs, speaks, pauses };
  const { view, begun } = useConversation(room, asked);
  const served = useQuery({ queryKey: ["pools"], queryFn: servedLanguages, retry: false });
  const known = [...new Set([...(served.data ?? []), ...tgtLangs])].sort();
  const disabled = !hasLanguages(asked);
  return (
    <Stack>
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
        <MicrophoneControl
          view={view}
          disabled={disabled}
          onToggle={() => {
            void begun().toggleMicrophone();
          }}
        />
      ) : (
        <NoMicrophone />
      )}
      <WriteForm
        disabled={disabled}
        onSay={(said) => {
          begun().say(said);
        }}
      />
      <TalkNews view={view} />
      {view.lines.map((line) => (
        <LineCard key={line.id} line={line} />
      ))}
      <TranscriptDownloads lines={view.lines} />
    </Stack>
  );
}

/** Languages that the fleet can be heard in, where the reader may see them. */
async function servedLanguages(): Promise<string[]> {
  const pools = await answerOf(api.GET("/api/v1/pools", { params: { query: { limit: 1000 } } }));
  return [...new Set(pools.items.flatMap(({ pair }) => pair.split(":").slice(1)))];
}
