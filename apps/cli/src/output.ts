import { once } from 'node:events';
import { styleText } from 'node:util';
import type { Writable } from 'node:stream';
import { EXIT } from './failure.ts';
import { paintedOf, plainOf, renderTable, type Cell } from './table.ts';

/** How a command talks: data to stdout, all else to stderr. */
export interface Output {
  readonly isJson: boolean;
  /** Both a person reads stderr, and it can draw: a bar may be drawn. */
  readonly isTerminal: boolean;
  readonly columns: number;
  /** Colours a text for stdout; returns it unchanged without colour. */
  paint(style: Style, text: string): string;
  /** Writes one answer: JSON with `--json`, else the text, of which foreign parts went through `plainOf`. */
  record(value: object, text: () => string): Promise<void>;
  /** Writes a list as it comes: a JSON line an item with `--json`, else a table. */
  list<Item extends object>(items: AsyncIterable<Item> | Iterable<Item>, table: Table<Item>): Promise<void>;
  /** Writes text to stdout as it is; waits while the reader is slow. */
  write(text: string | Uint8Array): Promise<void>;
  /** Writes a line to stderr, but not with `--quiet`. Control characters of foreign texts are replaced here. */
  note(line: string): void;
  /** Writes a line to stderr, like {@link note}, also with `--quiet`. */
  warn(line: string): void;
  /** Sets the exit code for the time when the reader of stdout leaves; null: the command goes on. At first: 0. */
  atClosedPipe(exitCode: number | null): void;
  /** Draws `text` over the last drawn line of the terminal; an empty text clears it. */
  draw(text: string): void;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan' | 'inverse' | 'strikethrough';

export interface Table<Item> {
  readonly head: readonly string[];
  readonly row: (item: Item) => readonly Cell[];
  /** Shown on stderr instead of an empty table. */
  readonly empty: string;
}

/** A stream that may be a terminal. */
export type Screen = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export interface OutputOptions {
  readonly stdout: Screen;
  readonly stderr: Screen;
  readonly isJson: boolean;
  readonly isQuiet: boolean;
  readonly hasColor: boolean;
  readonly columns: number | undefined;
}

const COLUMNS_DEFAULT = 120;
/** Rows whose widths set the columns of a table; later rows are cut to them. */
const ROWS_MEASURED = 200;

/** Creates the output of a command. */
export function createOutput({
  stdout,
  stderr,
  isJson,
  isQuiet,
  hasColor,
  ...options
}: OutputOptions): Output {
  const columns = options.columns ?? [stdout.columns, stderr.columns].find(Boolean) ?? COLUMNS_DEFAULT;
  const isTerminal = stderr.isTTY === true && hasColor;
  const isPainted = stdout.isTTY === true && hasColor && !isJson;
  let drawn = '';
  const clear = (): void => {
    if (drawn !== '') stderr.write('\r\x1b[K');
    drawn = '';
  };
  const write = async (text: string | Uint8Array): Promise<void> => {
    clear();
    // An error is told by `endWithReader`.
    if (!stdout.write(text)) await once(stdout, 'drain').catch(() => undefined);
  };
  const warn = (line: string): void => {
    clear();
    stderr.write(`${paintedOf(line)}\n`);
  };
  return {
    isJson,
    isTerminal,
    columns,
    paint: (style, text) => (isPainted ? styleText(style, text, { validateStream: false }) : text),
    record: (value, text) => write(isJson ? `${JSON.stringify(value)}\n` : `${text()}\n`),
    list: async (items, table) => {
      if (isJson) for await (const item of items) await write(`${JSON.stringify(item)}\n`);
      else
        await writeTable(items, table, {
          write,
          note: (line) => (isQuiet ? undefined : warn(line)),
          // A pipe or a file has room for every column.
          columns: options.columns ?? (stdout.isTTY === true ? columns : Number.POSITIVE_INFINITY),
        });
    },
    write,
    note: (line) => (isQuiet ? undefined : warn(line)),
    warn,
    atClosedPipe: (exitCode) => void closedPipeCodes.set(stdout, { code: exitCode }),
    draw: (text) => {
      const line = plainOf(text.replaceAll(/\s/g, ' '));
      if (!isTerminal || isQuiet || line === drawn) return;
      stderr.write(`\r\x1b[K${line}`);
      drawn = line;
    },
  };
}

interface TableSink {
  readonly write: (text: string) => Promise<void>;
  readonly note: (line: string) => void;
  readonly columns: number;
}

async function writeTable<Item extends object>(
  items: AsyncIterable<Item> | Iterable<Item>,
  { head, row, empty }: Table<Item>,
  { write, note, columns }: TableSink,
): Promise<void> {
  let rows: (readonly Cell[])[] = [];
  let widths: readonly number[] | undefined;
  const flush = async (): Promise<void> => {
    const rendered = renderTable(widths === undefined ? head : undefined, rows, columns, widths);
    widths = rendered.widths;
    rows = [];
    await write(rendered.text);
  };
  for await (const item of items) {
    rows.push(row(item));
    if (rows.length === ROWS_MEASURED) await flush();
  }
  if (rows.length > 0) await flush();
  else if (widths === undefined) note(empty);
}

/** Exit codes of commands that wait; see {@link Output.atClosedPipe}. */
const closedPipeCodes = new WeakMap<Writable, { readonly code: number | null }>();

/**
 * Ends the process when stdout cannot be written; quietly when its reader has closed the pipe, as `| head` does. A command that
 * waits for an end goes on: its exit code tells the end.
 */
export function endWithReader(
  { stdout, stderr }: { readonly stdout: Writable; readonly stderr: Writable },
  exit: (code: number) => void,
): void {
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') {
      const { code } = closedPipeCodes.get(stdout) ?? { code: EXIT.ok };
      if (code !== null) exit(code);
      return;
    }
    const next = error.code === 'ENOSPC' ? 'Free space, and run the command again.' : 'Check its target.';
    stderr.write(`Standard output cannot be written: ${error.message}. ${next}\n`);
    exit(EXIT.failed);
  });
  // Without a reader of messages the command goes on.
  stderr.on('error', () => undefined);
}
