import { Stack, Text } from "@mantine/core";
import { useEffect, useRef } from "react";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { hasLanguages, type ConversationView } from "./conversation";
import { LanguageInput } from "./language-inputs";
import { latencyLine } from "./latency-line";
import { Said, Translated } from "./line-card";
import { hasMicrophone } from "./microphone";
import {
  MicrophoneControl,
  NoMicrophone,
  TalkNews,
  TranscriptDownloads,
  WriteForm,
} from "./talk-controls";
import type { TalkProps } from "./talk-page";
import { merged, type Line } from "./transcript";
import { useConversation, useTalkRoom, type OneConversation } from "./use-conversation";
import { useSuggestedLanguages } from "./use-languages";

/**
 * Two people across one screen: each has a half in a language of its own, with a session to the
 * other's language. On a phone that lies between them the far half stands upside down.
 */
export function TwoPeople({ from: nearLang, to, onChange, pauses }: TalkProps) {
  const [farLang = "", ...others] = to;
  const setNearLang = (lang: string) => {
    onChange({ from: lang });
  };
  const setFarLang = (lang: string) => {
    onChange({ to: [lang, ...others] });
  };
  const room = useTalkRoom();
  const speaks = true;
  const farAsked = { srcLang: farLang, tgtLangs: [nearLang], speaks, pauses };
  const nearAsked = { srcLang: nearLang, tgtLangs: [farLang], speaks, pauses };
  const far = useConversation(room, farAsked);
  const near = useConversation(room, nearAsked);
  const disabled = !hasLanguages(nearAsked);
  const lines = merged(far.view.lines, near.view.lines);
  const { sources, targets, isServed } = useSuggestedLanguages();
  const suggested = [...new Set([...sources, ...targets])].sort();
  const shared = { lines, disabled, suggested, served: isServed ? suggested : [] };
  return (
    <Stack>
      {!hasMicrophone() && <NoMicrophone />}
      <div className="talk-halves">
        <Half
          {...shared}
          {...{ who: 2, lang: farLang, setLang: setFarLang, own: far, other: near }}
        />
        <Half
          {...shared}
          {...{ who: 1, lang: nearLang, setLang: setNearLang, own: near, other: far }}
        />
      </div>
      <TranscriptDownloads lines={lines} />
    </Stack>
  );
}

interface HalfProps {
  who: 1 | 2;
  lang: string;
  setLang: (lang: string) => void;
  own: OneConversation;
  other: OneConversation;
  lines: readonly Line[];
  /** Whether a language is missing, so that nothing can be said. */
  disabled: boolean;
  suggested: readonly string[];
  /** What the fleet serves, where its readers may see it. */
  served: readonly string[];
}

function Half(props: HalfProps) {
  const { who, lang, setLang, own, other, lines, disabled, suggested, served } = props;
  const text = useText();
  return (
    <section
      className={who === 2 ? "talk-half talk-half-far" : "talk-half"}
      aria-label={text("person", { number: who })}
    >
      <Captions own={own.view} lines={lines} label={text("captionsOf", { number: who })} />
      <TalkNews view={own.view} served={served} />
      <div className="talk-half-controls">
        <LanguageInput
          label={text("language")}
          value={lang}
          onChange={setLang}
          suggestions={suggested}
        />
        {hasMicrophone() && (
          <div className="talk-half-microphone">
            <MicrophoneControl
              view={own.view}
              disabled={disabled}
              onToggle={() => {
                // Both would hear each other: the one who begins to speak has the microphone.
                void other.stopListening().then(() => own.begun().toggleMicrophone());
              }}
            />
          </div>
        )}
      </div>
      <WriteForm
        disabled={disabled}
        onSay={(said) => {
          own.begun().say(said);
        }}
      />
    </section>
  );
}

interface CaptionsProps {
  own: ConversationView;
  lines: readonly Line[];
  label: string;
}

/** Everything that was said, in the language of this half. */
function Captions({ own, lines, label }: CaptionsProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.scrollTo({ top: place.current.scrollHeight });
  }, [lines.length]);
  const ownIds = new Set(own.lines.map(({ id }) => id));
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard too
    <div ref={place} className="talk-captions" role="log" aria-label={label} tabIndex={0}>
      {lines.map((line) =>
        ownIds.has(line.id) ? (
          <div key={line.id} className="talk-own">
            <Said line={line} />
          </div>
        ) : (
          <Heard key={line.id} line={line} />
        ),
      )}
    </div>
  );
}

function Heard({ line }: { line: Line }) {
  const formats = useFormats();
  const text = useText();
  return Object.entries(line.translations).map(([language, translation]) => (
    <div key={language}>
      <Translated language={language} translation={translation} />
      <Text size="xs" c="dimmed" className="number">
        {latencyLine(language, translation, formats, text)}
      </Text>
    </div>
  ));
}
