/** A value of a cell; null and undefined are shown as a dash. */
export type Cell = string | number | null | undefined;

const GAP = '  ';
const NARROWEST = 6;
/** Ids, groups of failures and times are of no use when they are cut. */
const WHOLE = /^([a-z_]+-[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT\d\d:\d\dZ)$/;
/** A time with its seconds, which a table leaves out. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d(\.\d+)?Z$/;

/** A rendered table. */
export interface RenderedTable {
  readonly text: string;
  /** Widths of the columns, for later rows. */
  readonly widths: readonly number[];
}

/**
 * Renders rows in columns; numbers stand to the right. Cuts the widest columns until a row fits into `columns`. The text
 * of the last column is not padded.
 */
export function renderTable(
  head: readonly string[] | undefined,
  rows: readonly (readonly Cell[])[],
  columns: number,
  given?: readonly number[],
): RenderedTable {
  const texts = rows.map((row) => row.map(textOf));
  const widths = given ?? fit(naturalWidths(head ?? [], texts), columns, wholeColumns(texts));
  const isNumber = widths.map((_, place) => rows.every((row) => typeof row[place] === 'number'));
  const lineOf = (cells: readonly string[]): string =>
    cells
      .map((cell, place) =>
        alignTo(widths[place] ?? 0, cut(cell, widths[place] ?? 0), isNumber[place] ?? false),
      )
      .join(GAP)
      .trimEnd();
  const lines = [...(head === undefined ? [] : [head.map((name) => name.toUpperCase())]), ...texts];
  return { text: lines.map((cells) => `${lineOf(cells)}\n`).join(''), widths };
}

function textOf(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  return plainOf(String(cell).replaceAll(/\s+/g, ' ')).replace(TIME, '$1Z');
}

/**
 * Replaces control characters, with which a stored text could rule the terminal, and those of writing direction, with which
 * it could show another text than it has. Line ends and tabs stay.
 */
export function plainOf(text: string): string {
  return text.replaceAll(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/gu, '\u{FFFD}');
}

/** Like {@link plainOf}, but leaves the styles of `paint`: a message may be a painted diff. */
export function paintedOf(text: string): string {
  return text
    .split(/(\u001B\[(?:1|2|7|9|22|27|29|31|32|33|36|39)m)/)
    .map((part, place) => (place % 2 === 0 ? plainOf(part) : part))
    .join('');
}

function naturalWidths(head: readonly string[], rows: readonly (readonly string[])[]): number[] {
  const count = Math.max(head.length, ...rows.map((row) => row.length));
  return Array.from({ length: count }, (_, place) =>
    Math.max(head[place]?.length ?? 0, ...rows.map((row) => row[place]?.length ?? 0)),
  );
}

function wholeColumns(rows: readonly (readonly string[])[]): ReadonlySet<number> {
  return new Set(rows.flatMap((row) => row.flatMap((cell, place) => (WHOLE.test(cell) ? [place] : []))));
}

/** Takes from the widest column that may be cut until all fit, or until all are narrow. */
function fit(widths: readonly number[], columns: number, kept: ReadonlySet<number>): number[] {
  const fitted = [...widths];
  const total = (): number => fitted.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > columns) {
    const cuttable = fitted.map((width, place) => (kept.has(place) ? 0 : width));
    const widest = cuttable.indexOf(Math.max(...cuttable));
    if (kept.has(widest)) break;
    const width = fitted[widest] ?? 0;
    if (width <= NARROWEST) break;
    fitted[widest] = Math.max(
      NARROWEST,
      width - Math.max(1, total() - columns > width ? 1 : total() - columns),
    );
  }
  return fitted;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

function alignTo(width: number, text: string, isNumber: boolean): string {
  return isNumber ? text.padStart(width) : text.padEnd(width);
}
