import { Table } from "@mantine/core";

import { useFormats } from "../app/formats";
import { useText } from "../messages/text";
import { shareText } from "./scores";
import type { Outcomes } from "./types";

const KINDS = ["scored", "target_failed", "unscored", "infrastructure"] as const;

/** The four things that can become of a turn, each with its share of all that have ended. */
export function OutcomesLine({ outcomes }: { outcomes: Outcomes }) {
  const text = useText();
  const formats = useFormats();
  const ended = KINDS.reduce((sum, kind) => sum + outcomes[kind], 0);
  return (
    <Table aria-label={text("outcomes")} verticalSpacing={2} fz="sm">
      <Table.Tbody>
        {KINDS.map((kind) => (
          <Table.Tr key={kind}>
            <Table.Th scope="row" fw={400}>
              {text(`outcome_${kind}`)}
            </Table.Th>
            <Table.Td className="number" ta="end">
              {text("countOf", {
                count: formats.number(outcomes[kind]),
                total: formats.number(ended),
              })}
            </Table.Td>
            <Table.Td className="number" ta="end">
              {shareText(outcomes[kind], ended, formats)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
