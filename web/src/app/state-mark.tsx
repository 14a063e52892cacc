import { Group, Text } from "@mantine/core";

interface StateMarkProps {
  color: string;
  children: string;
}

/** A state by its colour, with its name beside it for those who see no colours. */
export function StateMark({ color, children }: StateMarkProps) {
  return (
    <Group gap={7} wrap="nowrap" component="span" display="inline-flex">
      <svg width="9" height="9" className="state-dot" aria-hidden="true">
        <circle cx="4.5" cy="4.5" r="4.5" fill={color} />
      </svg>
      <Text span size="sm">
        {children}
      </Text>
    </Group>
  );
}
