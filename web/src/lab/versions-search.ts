/** Which version of a dataset is shown, and with which one it is compared. */
export interface VersionsSearch {
  version?: number;
  from?: number;
}

/** The versions of an address; what makes no sense in it is left out. */
export function versionsSearchOf(search: Readonly<Record<string, unknown>>): VersionsSearch {
  const { version, from } = search;
  return {
    ...(isNumber(version) && { version }),
    ...(isNumber(from) && { from }),
  };
}

function isNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}
