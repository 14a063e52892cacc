import { Table } from "@mantine/core";
import type { ReactNode } from "react";

/** Names and values of one thing; a value that is missing is a dash. */
export function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <Table variant="vertical" layout="fixed">
      <Table.Tbody>
        {rows.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th scope="row" w={180}>
              {name}
            </Table.Th>
            <Table.Td className="fact">{value === null || value === "" ? "–" : value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
