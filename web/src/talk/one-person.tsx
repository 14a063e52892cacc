import { Card, Group, Stack, Switch } from "@mantine/core";
import { useState } from "react";

import { useText } from "../messages/text";
import { hasLanguages } from "./conversation";
import { LanguageInput, LanguagesInput } from "./language-inputs";
import { LineCard } from "./line-card";
import { hasMicrophone } from "./microphone";
import {
  MicrophoneControl,
  NoMicrophone,
  TalkNews,
  TranscriptDownloads,
  WriteForm,
} from "./talk-controls";
import type { TalkProps } from "./talk-page";
import { useConversation, useTalkRoom } from "./use-conversation";
import { useSuggestedLanguages } from "./use-languages";

/** One person speaks or writes, to any number of languages. */
export function OnePerson({ from, to, onChange, pauses }: TalkProps) {
  const text = useText();
  const [speaks, setSpeaks] = useState(true);
  const room = useTalkRoom();
  const suggested = useSuggestedLanguages();
  const asked = { srcLang: from, tgtLangs: to, speaks, pauses };
  const { view, begun } = useConversation(room, asked);
  const disabled = !hasLanguages(asked);
  return (
    <Stack>
      <Card withBorder>
        <Stack gap="md">
          <Group align="start">
            <LanguageInput
              label={text("from")}
              value={from}
              suggestions={suggested.sources}
              onChange={(tag) => {
                onChange({ from: tag });
              }}
            />
            <LanguagesInput
              label={text("to")}
              value={to}
              suggestions={suggested.targets}
              onChange={(tags) => {
                onChange({ to: tags });
              }}
            />
            <Switch
              mt={{ base: 0, sm: 30 }}
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
        </Stack>
      </Card>
      <TalkNews view={view} served={suggested.isServed ? suggested.targets : []} />
      {view.lines.length === 0 && <div className="talk-empty">{text("talkEmpty")}</div>}
      {view.lines.map((line) => (
        <LineCard key={line.id} line={line} />
      ))}
      <TranscriptDownloads lines={view.lines} />
    </Stack>
  );
}
