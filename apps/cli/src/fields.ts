import { plainOf } from './table.ts';

/** A field of a record; null and undefined are shown as a dash. */
export type Field = readonly [name: string, value: unknown];

/** Renders fields below each other. A structure is shown as JSON, a text of several lines is moved in. */
export function renderFields(fields: readonly Field[]): string {
  const width = Math.max(...fields.map(([name]) => name.length)) + 2;
  return fields
    .map(([name, value]) =>
      plainOf(`${name.padEnd(width)}${textOf(value).replaceAll('\n', `\n${' '.repeat(width)}`)}`),
    )
    .join('\n');
}

function textOf(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-';
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join(', ') || '-';
  return JSON.stringify(value);
}
