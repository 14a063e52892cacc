import { Pill, TagsInput, TextInput, type OptionsFilter } from "@mantine/core";
import { useId } from "react";

import { useReading } from "../messages/text";
import { isLanguage, languageName, languageTitle, suggestedFor, tagOf } from "./languages";

interface LanguageProps {
  label: string;
  value: string;
  onChange: (tag: string) => void;
  suggestions: readonly string[];
}

/** One language by its tag: some are suggested, and any other may be typed. */
export function LanguageInput({ label, value, onChange, suggestions }: LanguageProps) {
  const { language: reader, text } = useReading();
  const listId = useId();
  return (
    <>
      <TextInput
        label={label}
        flex="0 1 180px"
        miw={90}
        required
        list={listId}
        description={languageName(value, reader)}
        inputWrapperOrder={["label", "input", "description", "error"]}
        error={!isLanguage(value) && text("languageWanted")}
        value={value}
        onChange={(event) => {
          onChange(tagOf(event.currentTarget.value, suggestions, reader));
        }}
      />
      <datalist id={listId}>
        {suggestions.map((tag) => (
          <option key={tag} value={tag} label={languageTitle(tag, reader)} />
        ))}
      </datalist>
    </>
  );
}

interface LanguagesProps {
  label: string;
  value: readonly string[];
  onChange: (tags: readonly string[]) => void;
  suggestions: readonly string[];
}

/** Several languages: some are suggested, and any other may be typed. */
export function LanguagesInput({ label, value, onChange, suggestions }: LanguagesProps) {
  const { language: reader, text } = useReading();
  const isWrong = value.length === 0 || !value.every(isLanguage);
  return (
    <TagsInput
      label={label}
      maw={480}
      miw={180}
      required
      error={isWrong && text("languageWanted")}
      value={[...value]}
      data={[...suggestions]}
      filter={filterFor(reader)}
      comboboxProps={{ keepMounted: false }}
      renderOption={({ option }) => languageTitle(option.value, reader)}
      renderPill={({ option, onRemove }) => {
        const language = languageTitle(String(option.value), reader);
        return (
          <Pill
            withRemoveButton
            onRemove={() => onRemove?.()}
            removeButtonProps={{
              "aria-label": text("removeLanguage", { language }),
              "aria-hidden": false,
            }}
          >
            {language}
          </Pill>
        );
      }}
      onChange={(typed) => {
        onChange([...new Set(typed.map((tag) => tagOf(tag, suggestions, reader)))]);
      }}
    />
  );
}

function filterFor(reader: string): OptionsFilter {
  return ({ options, search }) => {
    const tags = options.flatMap((option) => ("value" in option ? [option.value] : []));
    const suggested = suggestedFor(search, tags, reader);
    return options.filter((option) => "value" in option && suggested.includes(option.value));
  };
}
