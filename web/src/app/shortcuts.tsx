import { Kbd, Modal, Stack, Switch, Table, Text } from "@mantine/core";

import { useText, type MessageKey } from "../messages/text";
import { singleKeys, useListedKeys, useSingleKeys, useSingleKeysOn } from "./page-keys";
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

interface ShortcutsProps {
  opened: boolean;
  open: () => void;
  close: () => void;
}

/** The keys that work on every page, the list of them, and the switch for the single ones. */
export function Shortcuts({ opened, open, close }: ShortcutsProps) {
  const text = useText();
  const isOn = useSingleKeysOn();
  const ofPage = useListedKeys();
  useSingleKeys([
    ["/", focusSearch],
    ["shift+?", open],
    ["?", open],
  ]);
  const together = new Map<MessageKey, string[]>();
  for (const { key, meaning } of ofPage) {
    together.set(meaning, [...(together.get(meaning) ?? []), key]);
  }
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={text("keyHelp")}
      closeButtonProps={{ "aria-label": text("close") }}
    >
      <Stack>
        <KeyTable rows={KEYS.map(([key, meaning]) => [[key], meaning])} />
        {together.size > 0 && (
          <>
            <Text fw={600}>{text("keysOfPage")}</Text>
            <KeyTable rows={[...together].map(([meaning, keys]) => [keys, meaning])} />
          </>
        )}
        <Switch
          label={text("singleKeys")}
          description={text("singleKeysHint")}
          checked={isOn}
          onChange={(event) => {
            singleKeys.turn(event.currentTarget.checked);
          }}
        />
      </Stack>
    </Modal>
  );
}

function KeyTable({ rows }: { rows: readonly (readonly [readonly string[], MessageKey])[] }) {
  const text = useText();
  return (
    <Table>
      <Table.Tbody>
        {rows.map(([keys, meaning]) => (
          <Table.Tr key={meaning}>
            <Table.Td>
              {keys.map((key) => (
                <Kbd key={key} mr={4}>
                  {key}
                </Kbd>
              ))}
            </Table.Td>
            <Table.Td>{text(meaning)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
