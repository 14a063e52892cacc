import { Text } from "@mantine/core";
import { useCallback } from "react";

import { useText } from "../messages/text";
import { valueText } from "./row-values";
import { soundFile, soundOf } from "./sound";

interface ColumnValueProps {
  name: string;
  value: unknown;
  /** The dataset that keeps the sounds that rows refer to. */
  datasetId: string | null;
}

/** A column of an item or of an output: text as text, a sound as a player. */
export function ColumnValue({ name, value, datasetId }: ColumnValueProps) {
  const text = useText();
  const sound = soundOf(value);
  if (sound === null || (sound.base64 === null && datasetId === null)) {
    return (
      <Text size="sm" className="value">
        {valueText(value)}
      </Text>
    );
  }
  const label = text("soundOf", { name });
  if (sound.base64 !== null) {
    return <OwnSound label={label} base64={sound.base64} format={sound.format} />;
  }
  const address = `/api/v1/datasets/${encodeURIComponent(datasetId ?? "")}/audio/${sound.sha256}`;
  // What was said stands beside it, in the other columns of the row.
  // eslint-disable-next-line jsx-a11y/media-has-caption
  return <audio controls preload="none" src={address} aria-label={label} className="player" />;
}

interface OwnSoundProps {
  label: string;
  base64: string;
  format: string;
}

/** A sound that is part of the row itself. */
function OwnSound({ label, base64, format }: OwnSoundProps) {
  const load = useCallback(
    (player: HTMLAudioElement) => {
      const address = URL.createObjectURL(soundFile(base64, format));
      player.src = address;
      return () => {
        URL.revokeObjectURL(address);
      };
    },
    [base64, format],
  );
  // eslint-disable-next-line jsx-a11y/media-has-caption
  return <audio controls ref={load} aria-label={label} className="player" />;
}
