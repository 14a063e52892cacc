import { useHotkeys } from "@mantine/hooks";
import { useEffect, useSyncExternalStore } from "react";

import type { MessageKey } from "../messages/text";

/** A single key, without Ctrl or Alt, that a page or the whole console listens to. */
export interface PageKey {
  key: string;
  meaning: MessageKey;
  act: () => void;
}

type ListedKey = Pick<PageKey, "key" | "meaning">;

const KEPT_AS = "dragoman.single-keys";
const OFF = "off";

/**
 * Which single keys there are on the page that is shown, and whether they work: those who speak to
 * their computer switch them off, so that a word does not do something.
 */
class SingleKeys {
  isOn = localStorage.getItem(KEPT_AS) !== OFF;
  listed: readonly ListedKey[] = [];
  private readonly listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  turn(isOn: boolean): void {
    this.isOn = isOn;
    localStorage.setItem(KEPT_AS, isOn ? "on" : OFF);
    this.tell();
  }

  /** List keys until what is returned is called. */
  list(keys: readonly ListedKey[]): () => void {
    this.listed = [...this.listed, ...keys];
    this.tell();
    return () => {
      this.listed = this.listed.filter((key) => !keys.includes(key));
      this.tell();
    };
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

export const singleKeys = new SingleKeys();

export function useSingleKeysOn(): boolean {
  return useSyncExternalStore(singleKeys.subscribe, () => singleKeys.isOn);
}

/** The keys of the page that is shown, besides those of every page. */
export function useListedKeys(): readonly ListedKey[] {
  return useSyncExternalStore(singleKeys.subscribe, () => singleKeys.listed);
}

/** Listen to single keys while the component is shown and they are on. */
export function useSingleKeys(keys: readonly (readonly [string, () => void])[]): void {
  const isOn = useSingleKeysOn();
  useHotkeys(isOn ? keys.map(([key, act]) => [key, act]) : []);
}

/** The same for keys that only this page has; the list of keys shows them. */
export function usePageKeys(keys: readonly PageKey[]): void {
  useSingleKeys(keys.map(({ key, act }) => [key, act]));
  const named = keys.map(({ key, meaning }) => `${key} ${meaning}`).join("\n");
  useEffect(
    () =>
      singleKeys.list(
        named.split("\n").map((one) => {
          const [key = "", meaning = ""] = one.split(" ");
          return { key, meaning: meaning as MessageKey };
        }),
      ),
    [named],
  );
}
