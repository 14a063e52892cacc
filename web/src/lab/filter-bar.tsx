import { Button, Group, NativeSelect, Pill, Stack, TextInput } from "@mantine/core";
import { useState } from "react";

import { SEARCH_FIELD } from "../app/shortcuts";
import { useText } from "../messages/text";
import { conditionOf, WITHOUT_VALUE, type Kinds } from "./condition-value";
import {
  filterProblem,
  filterText,
  OPERATORS,
  partsOf,
  readFilter,
  textOfParts,
  type Condition,
  type Filter,
  type Operator,
} from "./filter-text";

interface FilterBarProps {
  /** The filter that holds now. */
  filter: string;
  /** The fields that there are. */
  fields: readonly string[];
  /** What they hold, as far as it is known. */
  kinds: Kinds;
  onFilter: (filter: string) => void;
}

/** A filter as chips, one for each condition, and as the text that they make. */
export function FilterBar({ filter, fields, kinds, onFilter }: FilterBarProps) {
  const text = useText();
  const [written, setWritten] = useState(filter);
  const problem = filterProblem(written);
  const isSound = filterProblem(filter) === null;
  const parts = isSound ? partsOf(readFilter(filter)) : [];
  return (
    <Stack gap="xs">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (problem === null) onFilter(written.trim());
        }}
      >
        <Group align="start" wrap="nowrap">
          <TextInput
            {...SEARCH_FIELD}
            className="grow"
            label={text("filter")}
            placeholder='score.chrf < 30 and status = "success"'
            value={written}
            error={problem?.message}
            onChange={(event) => {
              setWritten(event.currentTarget.value);
            }}
          />
          <Button type="submit" variant="default" mt={24}>
            {text("apply")}
          </Button>
        </Group>
      </form>
      {parts.length > 0 && (
        <Chips
          parts={parts}
          onRemove={(removed) => {
            onFilter(textOfParts(parts.filter((_, index) => index !== removed)));
          }}
        />
      )}
      <NewCondition
        fields={fields}
        kinds={kinds}
        onAdd={(condition) => {
          onFilter(textOfParts([...parts, condition]));
        }}
      />
    </Stack>
  );
}

function Chips({ parts, onRemove }: { parts: readonly Filter[]; onRemove: (index: number) => void }) {
  const text = useText();
  return (
    <Group gap="xs" component="ul" className="chips" aria-label={text("conditions")}>
      {parts.map((part, index) => {
        const told = filterText(part);
        return (
          <li key={told}>
            <Pill
              size="lg"
              withRemoveButton
              onRemove={() => {
                onRemove(index);
              }}
              removeButtonProps={{
                "aria-label": text("removeCondition", { condition: told }),
                "aria-hidden": false,
                tabIndex: 0,
              }}
            >
              {told}
            </Pill>
          </li>
        );
      })}
    </Group>
  );
}

function NewCondition({
  fields,
  kinds,
  onAdd,
}: {
  fields: readonly string[];
  kinds: Kinds;
  onAdd: (condition: Condition) => void;
}) {
  const text = useText();
  const choices = [...fields, "text"];
  const [field, setField] = useState("");
  const [op, setOp] = useState<Operator>("=");
  const [value, setValue] = useState("");
  const chosen = field === "" ? (choices[0] ?? "text") : field;
  const takesValue = !WITHOUT_VALUE.includes(op);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onAdd(conditionOf(chosen, op, value, kinds));
        setValue("");
      }}
    >
      <Group align="end" gap="xs">
        <NativeSelect
          label={text("field")}
          data={choices}
          value={chosen}
          onChange={(event) => {
            setField(event.currentTarget.value);
          }}
        />
        <NativeSelect
          label={text("comparison")}
          data={OPERATORS.map((one) => ({ value: one, label: one.replace("_", " ") }))}
          value={op}
          onChange={(event) => {
            setOp(event.currentTarget.value as Operator);
          }}
        />
        <TextInput
          label={text("value")}
          disabled={!takesValue}
          required={takesValue}
          value={value}
          onChange={(event) => {
            setValue(event.currentTarget.value);
          }}
        />
        <Button type="submit" variant="default">
          {text("addCondition")}
        </Button>
      </Group>
    </form>
  );
}
