import { Anchor, Group } from "@mantine/core";
import { Link, type LinkProps } from "@tanstack/react-router";

import { useMayAct, useMe } from "../api/identity";
import { useText, type MessageKey } from "../messages/text";

interface LabLink {
  to: NonNullable<LinkProps["to"]>;
  title: MessageKey;
}

const EXPERIMENTS: readonly LabLink[] = [
  { to: "/lab", title: "experiments" },
  { to: "/lab/compare", title: "compare" },
];
const DATASETS: LabLink = { to: "/lab/datasets", title: "datasets" };
const NEW: LabLink = { to: "/lab/new", title: "newExperiment" };

/** The way between the pages of the lab. */
export function LabNavigation() {
  const text = useText();
  const me = useMe();
  const mayAct = useMayAct("experiments");
  const links = [
    ...EXPERIMENTS,
    ...(me?.sees.includes("datasets") ? [DATASETS] : []),
    ...(mayAct ? [NEW] : []),
  ];
  return (
    <Group component="nav" aria-label={text("lab")} gap="md" className="lab-links">
      {links.map(({ to, title }) => (
        <Anchor
          key={to}
          size="sm"
          className="lab-link"
          renderRoot={(props) => <Link to={to} activeOptions={{ exact: true }} {...props} />}
        >
          {text(title)}
        </Anchor>
      ))}
    </Group>
  );
}
