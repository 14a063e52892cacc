import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";

import { useText } from "../messages/text";
import { ProblemAlert } from "./page-problems";

interface ConfirmedActionProps {
  label: string;
  /** What will happen, to which thing. */
  consequence: string;
  act: () => Promise<unknown>;
  onDone?: () => void;
  color?: string;
}

/** A button for what cannot be taken back lightly: it says what will happen, and asks. */
export function ConfirmedAction({ label, consequence, act, onDone, color }: ConfirmedActionProps) {
  const text = useText();
  const [opened, { open, close }] = useDisclosure(false);
  const acting = useMutation({
    mutationFn: act,
    onSuccess: () => {
      close();
      onDone?.();
    },
  });
  return (
    <>
      <Button variant="default" size="xs" onClick={open}>
        {label}
      </Button>
      <Modal
        opened={opened}
        onClose={close}
        title={label}
        closeButtonProps={{ "aria-label": text("close") }}
      >
        <Stack>
          <Text>{consequence}</Text>
          {acting.error && <ProblemAlert error={acting.error} />}
          <Group justify="end">
            <Button variant="default" onClick={close}>
              {text("cancel")}
            </Button>
            <Button
              color={color ?? "blue"}
              loading={acting.isPending}
              onClick={() => {
                acting.mutate();
              }}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
