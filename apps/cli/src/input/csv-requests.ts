import { Readable } from 'node:stream';
import type { BatchTemplate } from '@nightshift/client';
import { CsvError, parse } from 'csv-parse';
import { CommandError } from '../failure.ts';
import { listOf } from '../words.ts';

/** How the rows of a CSV file become requests. */
export interface CsvOptions {
  /** Text with `{{ column }}`; undefined if the rows are requests themselves. */
  readonly template: string | undefined;
  readonly agentId: string | undefined;
  /** Column with the custom ids. Default: `custom_id` if there is one, else `row-1` and so on. */
  readonly customId: string | undefined;
  readonly delimiter: string;
}

type Row = Readonly<Record<string, string>>;

/** Columns of rows without a template: fields of a request. */
const REQUEST_COLUMNS = ['custom_id', 'agent_id', 'input', 'conversation', 'deadline'];
const REQUEST_NUMBERS = ['max_steps', 'max_cost_usd', 'max_output_tokens'];

/** Returns the template of a batch; undefined if the rows are requests. */
export function templateOf({ template, agentId }: CsvOptions): BatchTemplate | undefined {
  if (template === undefined) return undefined;
  if (agentId === undefined)
    throw new CommandError('A template needs its agent. Add --agent ID; nightshift agents ls lists them.');
  return { agent_id: agentId, input: template };
}

/** A CSV file with work. */
export interface CsvFile {
  /** For messages. */
  readonly name: string;
  readonly bytes: AsyncIterable<Buffer>;
  /** The line at which each row begins; grows while the file is read. */
  readonly lines: number[];
}

/** Yields a request, or an input of the template, for each row. Throws: a usage error with the row's line. */
export async function* csvRequests(
  { name, bytes, lines }: CsvFile,
  options: CsvOptions,
): AsyncGenerator<object, void, undefined> {
  /** Lines read so far, without empty ones. */
  let linesRead = 0;
  const parser = parse({
    bom: true,
    delimiter: options.delimiter,
    skip_empty_lines: true,
    columns: (head: string[]) => {
      linesRead = linesIn(head);
      const columns = head.map((column) => column.trim());
      checkColumns(columns, options, name);
      return columns;
    },
    on_record: (row: Row, { empty_lines }) => {
      lines.push(linesRead + empty_lines + 1);
      linesRead += linesIn(Object.values(row));
      return row;
    },
  });
  const source = Readable.from(bytes, { objectMode: false });
  source.on('error', (error) => parser.destroy(error));
  let number = 0;
  try {
    for await (const row of source.pipe(parser) as AsyncIterable<Row>) {
      number += 1;
      yield options.template === undefined
        ? requestOf(row, options, { number, name: `Line ${lines[number - 1] ?? ''} of ${name}` })
        : { custom_id: customIdOf(row, options, number), variables: row };
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new CommandError(`${name} is no CSV file: ${error.message}. Correct the line; nothing was stored.`);
  } finally {
    source.destroy();
  }
  if (number === 0)
    throw new CommandError(
      `${name} has no rows. The first line names the columns, each other line is a run.`,
    );
}

/** Counts the lines of a row, whose values may have several. */
function linesIn(values: readonly string[]): number {
  return values.reduce((sum, value) => sum + (value.match(/\r\n|\n|\r/g)?.length ?? 0), 1);
}

/** Throws: a usage error for columns that are missing, double or unknown. */
function checkColumns(columns: readonly string[], options: CsvOptions, name: string): void {
  const wanted =
    options.template === undefined
      ? ['input', ...(options.agentId === undefined ? ['agent_id'] : [])]
      : variablesOf(options.template);
  const missing = [...wanted, ...(options.customId === undefined ? [] : [options.customId])].filter(
    (column) => !columns.includes(column),
  );
  const double = columns.find((column, place) => columns.indexOf(column) < place);
  if (double !== undefined) throw new CommandError(`${name} has two columns ${double}. Rename one of them.`);
  if (missing.length > 0) {
    const hint = columns.length === 1 && /[;\t|]/.test(columns[0] ?? '') ? ' Is --delimiter missing?' : '';
    const [cause, remedy] =
      options.template === undefined
        ? ['Rows without a template need', remedyOf(missing, columns)]
        : ['The template or --custom-id needs', 'Correct the file or the template'];
    throw new CommandError(
      `${cause} the column ${listOf(missing)}, and ${name} has ${listOf(columns)}.${hint} ${remedy}; nothing was stored.`,
    );
  }
  const unknown = columns.find((column) => ![...REQUEST_COLUMNS, ...REQUEST_NUMBERS].includes(column));
  if (options.template === undefined && unknown !== undefined)
    throw new CommandError(
      `The column ${unknown} of ${name} is no field of a request. Add --template 'text with {{ ${unknown} }}' and --agent ID, or remove it.`,
    );
}

/** Says how rows without the columns of a request are sent. */
function remedyOf(missing: readonly string[], [column = 'column']: readonly string[]): string {
  const flags = [
    ...(missing.includes('input') ? [`--template 'text with {{ ${column} }}'`] : []),
    ...(missing.includes('input') || missing.includes('agent_id') ? ['--agent ID'] : []),
  ];
  return flags.length === 0 ? 'Correct the file or --custom-id' : `Add ${listOf(flags)}, or these columns`;
}

/** Names of the variables in `{{ … }}` of a template, without those that the template sets itself. */
export function variablesOf(template: string): string[] {
  const names = (pattern: RegExp): string[] => [...template.matchAll(pattern)].map(([, name = '']) => name);
  const own = new Set([
    ...names(/\{%-?\s*(?:assign|capture|increment|decrement)\s+([\w-]+)/g),
    ...names(/\{%-?\s*(?:for|tablerow)\s+([\w-]+)/g),
    ...['forloop', 'tablerowloop', 'true', 'false', 'nil', 'null', 'empty', 'blank'],
  ]);
  return [...new Set(names(/\{\{-?\s*([\p{L}_][\p{L}\p{N}_-]*)/gu))].filter((name) => !own.has(name));
}

/** Throws: a usage error for a number that is none. */
function requestOf(
  row: Row,
  options: CsvOptions,
  { number, name: place }: { readonly number: number; readonly name: string },
): object {
  const numbers = REQUEST_NUMBERS.filter((name) => (row[name] ?? '') !== '').map((name) => {
    const value = Number(row[name]);
    if (Number.isFinite(value)) return [name, value];
    throw new CommandError(
      `${place}: the column ${name} has '${row[name] ?? ''}', which is no number. Correct it, or leave it empty; nothing was stored.`,
    );
  });
  const given = REQUEST_COLUMNS.filter((name) => (row[name] ?? '') !== '').map((name) => [name, row[name]]);
  return {
    ...(options.agentId !== undefined && { agent_id: options.agentId }),
    ...(Object.fromEntries([...given, ...numbers]) as object),
    custom_id: customIdOf(row, options, number),
  };
}

/** Returns the column of a field of a request or an input. */
export function columnOf(field: string, { customId = 'custom_id' }: CsvOptions): string {
  return field === 'custom_id' ? customId : field;
}

function customIdOf(row: Row, { customId = 'custom_id' }: CsvOptions, number: number): string {
  return row[customId] || `row-${number}`;
}
