import { Modal, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { createSpotlight, Spotlight } from "@mantine/spotlight";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, type NavigateOptions } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { answerOf, api } from "../api/client";
import { signOut, useMayAct, useMe } from "../api/identity";
import { useFleet } from "../live/use-fleet";
import { LANGUAGES, useReading, useText, type Language } from "../messages/text";
import { matching, type Found } from "./palette-search";
import { pagesFor } from "./pages";

const [store, palette] = createSpotlight();

export const openPalette = palette.open;

/** From so many letters on, nodes and experiments are looked for too. */
const LETTERS_FOR_NAMES = 2;
const EXPERIMENTS_LISTED = 500;

interface PaletteProps {
  openKeys: () => void;
}

/** Ctrl+K: every page and command, and nodes and experiments, by a few letters of the name. */
export function Palette({ openKeys }: PaletteProps) {
  const text = useText();
  const [query, setQuery] = useState("");
  const commands = [...usePages(), ...useCommands(openKeys)];
  const found = matching(commands, query);
  const isNaming = query.trim().length >= LETTERS_FOR_NAMES;
  return (
    <Spotlight.Root store={store} query={query} onQueryChange={setQuery} shortcut="mod + K" scrollable>
      <Modal.Title className="only-read">{text("palette")}</Modal.Title>
      <Spotlight.Search placeholder={text("paletteHint")} aria-label={text("palette")} />
      <Spotlight.ActionsList>
        {found.map((one) => (
          <Spotlight.Action key={one.id} label={one.label} onClick={one.act} />
        ))}
        {isNaming && <Names query={query} />}
        {found.length === 0 && !isNaming && <Spotlight.Empty>{text("nothingFound")}</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

type Command = Found & { act: () => void };

function useGoing(): (to: NavigateOptions) => () => void {
  const navigate = useNavigate();
  return (to) => () => {
    void navigate(to);
  };
}

function usePages(): Command[] {
  const text = useText();
  const me = useMe();
  const going = useGoing();
  const mayMake = useMayAct("experiments");
  const sees = me?.sees ?? [];
  const lab: Command[] = [
    ...(sees.includes("experiments")
      ? [{ id: "/lab/compare", label: text("compare"), act: going({ to: "/lab/compare" }) }]
      : []),
    ...(sees.includes("datasets")
      ? [{ id: "/lab/datasets", label: text("datasets"), act: going({ to: "/lab/datasets" }) }]
      : []),
    ...(mayMake
      ? [{ id: "/lab/new", label: text("newExperiment"), act: going({ to: "/lab/new" }) }]
      : []),
  ];
  return [
    ...pagesFor(me).map(({ path, title }) => ({
      id: path,
      label: text(title),
      act: going({ to: path }),
    })),
    ...lab,
    { id: "/docs", label: text("apiPages"), act: going({ to: "/docs" }) },
  ];
}

function useCommands(openKeys: () => void): Command[] {
  const { language, setLanguage, text } = useReading();
  const { setColorScheme } = useMantineColorScheme();
  const other = useComputedColorScheme("light") === "dark" ? "light" : "dark";
  const me = useMe();
  const navigate = useNavigate();
  const others = Object.entries(LANGUAGES).filter(([code]) => code !== language);
  return [
    {
      id: "theme",
      label: text(other === "dark" ? "darkTheme" : "lightTheme"),
      act: () => {
        setColorScheme(other);
      },
    },
    ...others.map(([code, name]) => ({
      id: `language ${code}`,
      label: `${text("language")}: ${name}`,
      act: () => {
        setLanguage(code as Language);
      },
    })),
    { id: "keys", label: text("keyHelp"), act: openKeys },
    ...(me?.auth === "keys"
      ? [
          {
            id: "sign out",
            label: text("signOut"),
            act: () => {
              void signOut().then(() => navigate({ to: "/sign-in" }));
            },
          },
        ]
      : []),
  ];
}

/** Nodes and experiments whose name has the letters; asked for only while the reader types some. */
function Names({ query }: { query: string }) {
  const me = useMe();
  return (
    <>
      {me?.sees.includes("nodes") && <Nodes query={query} />}
      {me?.sees.includes("experiments") && <Experiments query={query} />}
    </>
  );
}

/** Enter takes the first of what was found, also where that came after the letters. */
function useFirstSelected(count: number): void {
  useEffect(() => {
    if (document.querySelector("[data-action][data-selected]") !== null) return;
    document.querySelector("[data-action]")?.setAttribute("data-selected", "true");
    store.updateState((state) => ({ ...state, selected: 0 }));
  }, [count]);
}

function Nodes({ query }: { query: string }) {
  const text = useText();
  const going = useGoing();
  const nodes = useFleet("nodes");
  const found = matching(
    [...(nodes?.keys() ?? [])].map((id) => ({ id, label: text("nodeTitle", { node: id }) })),
    query,
  );
  useFirstSelected(found.length);
  return found.map(({ id, label }) => (
    <Spotlight.Action
      key={id}
      label={label}
      onClick={going({ to: "/nodes/$nodeId", params: { nodeId: id } })}
    />
  ));
}

function Experiments({ query }: { query: string }) {
  const text = useText();
  const going = useGoing();
  const experiments = useQuery({
    queryKey: ["experiments", "names"],
    queryFn: () =>
      answerOf(api.GET("/api/v1/experiments", { params: { query: { limit: EXPERIMENTS_LISTED } } })),
    staleTime: 60_000,
  });
  const found = matching(
    (experiments.data?.items ?? []).map((one) => ({
      id: one.experiment_id,
      label: text("experimentTitle", { name: one.name }),
    })),
    query,
  );
  useFirstSelected(found.length);
  return found.map(({ id, label }) => (
    <Spotlight.Action
      key={id}
      label={label}
      onClick={going({
        to: "/lab/experiments/$experimentId",
        params: { experimentId: id },
      })}
    />
  ));
}
