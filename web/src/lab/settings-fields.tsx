import { NativeSelect, SimpleGrid, Textarea, TextInput } from "@mantine/core";
import { useId } from "react";

import { useText } from "../messages/text";
import type { Setting } from "./settings-schema";

interface SettingsFieldsProps {
  settings: readonly Setting[];
  written: Readonly<Record<string, string>>;
  /** Columns of the dataset, offered where a text is asked for. */
  columns: readonly string[];
  onWrite: (name: string, value: string) => void;
}

/** A form for the settings of a kind, as its JSON-schema has them. */
export function SettingsFields({ settings, written, columns, onWrite }: SettingsFieldsProps) {
  const text = useText();
  const offered = useId();
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
      <datalist id={offered}>
        {columns.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {settings.map((setting) => {
        const shared = {
          label: setting.name,
          required: setting.isRequired,
          value: written[setting.name] ?? "",
        };
        switch (setting.kind) {
          case "text":
            return (
              <TextInput
                key={setting.name}
                {...shared}
                placeholder={setting.fallback}
                list={offered}
                onChange={(event) => {
                  onWrite(setting.name, event.currentTarget.value);
                }}
              />
            );
          case "number":
            return (
              <TextInput
                key={setting.name}
                {...shared}
                type="number"
                step="any"
                placeholder={setting.fallback}
                onChange={(event) => {
                  onWrite(setting.name, event.currentTarget.value);
                }}
              />
            );
          case "switch":
          case "choice": {
            const choices = setting.kind === "switch" ? ["true", "false"] : setting.choices;
            const unset = setting.fallback === "" ? "–" : `– (${setting.fallback})`;
            return (
              <NativeSelect
                key={setting.name}
                {...shared}
                data={[{ value: "", label: unset }, ...choices]}
                onChange={(event) => {
                  onWrite(setting.name, event.currentTarget.value);
                }}
              />
            );
          }
          case "json":
            return (
              <Textarea
                key={setting.name}
                {...shared}
                autosize
                description={text("asJson")}
                placeholder={setting.fallback}
                onChange={(event) => {
                  onWrite(setting.name, event.currentTarget.value);
                }}
              />
            );
        }
      })}
    </SimpleGrid>
  );
}
