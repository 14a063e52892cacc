import { Kbd, Modal, Table } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";

import { useText, type MessageKey } from "../messages/text";
import { openPalette } from "./palette";

/** The search field of a page carries this attribute, so that `/` finds it. */
export const SEARCH_FIELD = { "data-search-field": true } as const;

const KEYS: readonly (readonly [string, MessageKey])[] = [
  ["Ctrl + K", "palette"],
  ["/", "keySearch"],
  ["?", "keyHelp"],
  ["Esc", "keyClose"],
];

function focusSearch(): void {
  const field = document.querySelector<HTMLElement>("[data-search-field]");
  if (field === null) openPalette();
  else field.focus();
}

/** The keys that work on every page, and the list of them. */
export function Shortcuts() {
  const text = useText();
  const [opened, { open, close }] = useDisclosure(false);
  useHotkeys([
    ["/", focusSearch],
    ["shift+?", open],
    ["?", open],
  ]);
  return (
    <Modal opened={opened} onClose={close} title={text("keyHelp")} closeButtonProps={{ "aria-label": text("close") }}>
      <Table>
        <Table.Tbody>
          {KEYS.map(([keys, meaning]) => (
            <Table.Tr key={keys}>
              <Table.Td>
                <Kbd>{keys}</Kbd>
              </Table.Td>
              <Table.Td>{text(meaning)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
