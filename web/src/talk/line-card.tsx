import { Card, Text } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { latencyLine } from "./latency-line";
import type { Line, Translation } from "./transcript";

/** An utterance with its translations into every language. */
export function LineCard({ line }: { line: Line }) {
  const formats = useFormats();
  const text = useText();
  return (
    <Card withBorder padding="sm">
      <Said line={line} />
      {Object.entries(line.translations).map(([language, translation]) => (
        <div key={language}>
          <Translated language={language} translation={translation} />
          <Text size="xs" c="dimmed" className="number">
            {latencyLine(language, translation, formats, text)}
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
  const text = useText();
  if (translation.text === null) {
    const code = translation.missing ?? "";
    return <Text c="red">{text("notTranslated", { language, code })}</Text>;
  }
  return (
    <Text fw={600} lang={language}>
      {translation.text}
    </Text>
  );
}
