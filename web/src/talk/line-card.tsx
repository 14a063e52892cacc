import { Card, Text } from "@mantine/core";

import { useFormats, type Formats } from "../app/formats";
import type { Line, Translation } from "./transcript";

/** An utterance with its translations into every language. */
export function LineCard({ line }: { line: Line }) {
  const formats = useFormats();
  return (
    <Card withBorder padding="sm">
      <Said line={line} />
      {Object.entries(line.translations).map(([language, translation]) => (
        <div key={language}>
          <Translated language={language} translation={translation} />
          <Text size="xs" c="dimmed" className="number">
            {stagesOf(language, translation, formats)}
          </Text>
        </div>
      ))}
    </Card>
  );
}

/** What was said, grey while it may still change. */
export function Said({ line }: { line: Line }) {
  return (
    <Text className="said" {...(line.isPartial && { c: "dimmed", fs: "italic" })}>
      {line.said || "…"}
    </Text>
  );
}

interface TranslatedProps {
  language: string;
  translation: Translation;
}

/** A translation, or why there is none. */
export function Translated({ language, translation }: TranslatedProps) {
  if (translation.text === null) return <Text c="red">{translation.missing}</Text>;
  return (
    <Text fw={600} lang={language}>
      {translation.text}
    </Text>
  );
}

/** How long each stage took, in one line. */
export function stagesOf(language: string, translation: Translation, formats: Formats): string {
  const { timings, totalMs } = translation;
  return [
    language,
    ...Object.entries(timings).flatMap(([stage, ms]) =>
      ms === null ? [] : [`${stage.replace(/_ms$/, "")} ${formats.milliseconds(ms)}`],
    ),
    ...(totalMs === null ? [] : [`= ${formats.milliseconds(totalMs)}`]),
  ].join(" · ");
}
