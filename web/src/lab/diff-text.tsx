import { Text } from "@mantine/core";

import { useText } from "../messages/text";

/** Kind (`same`, `removed` or `added`) and text of each piece. */
type Pieces = readonly (readonly string[])[];

/** A text with what was removed and added marked by colour and by a line. */
export function DiffText({ pieces }: { pieces: Pieces }) {
  const text = useText();
  return (
    <Text size="sm" component="p" className="diff" aria-label={text("difference")}>
      {pieces.map(([kind, piece], index) => {
        // Two pieces may be the same: where they stand tells them apart.
        const key = `${index} ${kind ?? ""}`;
        if (kind === "removed") return <del key={key}>{piece}</del>;
        if (kind === "added") return <ins key={key}>{piece}</ins>;
        return <span key={key}>{piece}</span>;
      })}
    </Text>
  );
}
