export type Fields = Readonly<Record<string, string>>;

/** Merges headers by name, whatever its case; the last value of a name counts. */
export function mergeHeaders(...all: readonly (Headers | Fields)[]): Headers {
  const merged = new Headers();
  for (const headers of all)
    for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers))
      merged.set(name, value);
  return merged;
}
