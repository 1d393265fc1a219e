import type { TemplateVariables } from '@nightshift/client';

/** More are sent as a file: a text field of this length is slow. */
const INPUTS_MAX = 20_000;

/** Pasted inputs that cannot be read; the message is for the person. */
export class InputsError extends Error {}

/**
 * Reads pasted inputs: JSON lines, or CSV with the names of the variables in its first line, as also copied from a spreadsheet.
 * An input without a `custom_id` gets `row-` and its number.
 * Throws: an {@link InputsError} that names the line.
 */
export function parseInputs(text: string): readonly TemplateVariables[] {
  const inputs = text.trimStart().startsWith('{') ? parseLines(text) : parseTable(text);
  if (inputs.length > INPUTS_MAX)
    throw new InputsError(
      `There are ${inputs.length} inputs; the form takes ${INPUTS_MAX}. Send more of them as a file.`,
    );
  return inputs;
}

function parseLines(text: string): readonly TemplateVariables[] {
  return text.split('\n').flatMap((line, place) => {
    if (line.trim() === '') return [];
    const value = parseObject(line, place + 1);
    const { custom_id, variables, ...others } = value;
    const isWhole = typeof variables === 'object' && variables !== null && Object.keys(others).length === 0;
    return [
      {
        custom_id: typeof custom_id === 'string' ? custom_id : `row-${place + 1}`,
        variables: isWhole ? { ...variables } : value,
      },
    ];
  });
}

function parseObject(line: string, number: number): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // The message below says it.
  }
  throw new InputsError(`Line ${number} is no JSON object. Write one like {"customer": "Ann"} on each line.`);
}

function parseTable(text: string): readonly TemplateVariables[] {
  const delimiter = delimiterOf(text);
  const [names = [], ...rows] = parseRows(text, delimiter);
  if (rows.length === 0)
    throw new InputsError(
      'The first line names the variables, and each further line is an input. Add at least one.',
    );
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new InputsError(`The first line has ${twice} twice. Rename one of them.`);
  return rows.map((row, place) => {
    if (row.length !== names.length)
      throw new InputsError(
        `Input ${place + 1} has ${row.length} values, and the first line ${names.length}. Put values with a ${
          delimiter === '\t' ? 'tab' : delimiter
        } into quotes.`,
      );
    const variables = Object.fromEntries(names.map((name, column) => [name, row[column] ?? '']));
    return { custom_id: variables['custom_id'] ?? `row-${place + 1}`, variables };
  });
}

/** Takes the delimiter from the first line: a tab, a comma, or else a semicolon. */
function delimiterOf(text: string): string {
  const [head = ''] = text.split('\n', 1);
  return ['\t', ',', ';'].find((delimiter) => head.includes(delimiter)) ?? ',';
}

/** Splits CSV into rows of values; empty rows are left out. Values in quotes may hold the delimiter and line breaks. */
function parseRows(text: string, delimiter: string): readonly (readonly string[])[] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  while (at < text.length) {
    const [value, end] = text[at] === '"' ? quotedAt(text, at) : plainAt(text, at, delimiter);
    row.push(value);
    at = end + 1;
    if (text[end] === delimiter && at < text.length) continue;
    if (text[end] === delimiter) row.push('');
    if (row.some((cell) => cell !== '')) rows.push(row);
    row = [];
  }
  return rows;
}

/** Reads a value in quotes. Returns it and the place behind it. */
function quotedAt(text: string, from: number): readonly [string, number] {
  let close = text.indexOf('"', from + 1);
  while (close !== -1 && text[close + 1] === '"') close = text.indexOf('"', close + 2);
  if (close === -1)
    throw new InputsError(
      `A quote is not closed: ${text.slice(from, from + 40)} … Close it, or double a quote within a value.`,
    );
  const end = text[close + 1] === '\r' ? close + 2 : close + 1;
  return [text.slice(from + 1, close).replaceAll('""', '"'), end];
}

function plainAt(text: string, from: number, delimiter: string): readonly [string, number] {
  let end = from;
  while (end < text.length && text[end] !== delimiter && text[end] !== '\n') end += 1;
  return [text.slice(from, end).trim(), end];
}
