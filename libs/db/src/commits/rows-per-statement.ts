/** Maximum rows of a statement. */
const ROWS_PER_STATEMENT = 5_000;
/** Maximum characters of a statement's texts; a single longer row is a statement of its own. */
const CHARS_PER_STATEMENT = 8_000_000;

/** Cuts rows, in order, into statements of bounded size; `charsOf` returns the characters of a row's texts. */
export function* rowsPerStatement<Row>(
  rows: Iterable<Row>,
  charsOf: (row: Row) => number = () => 0,
): Generator<readonly Row[]> {
  let chunk: Row[] = [];
  let chars = 0;
  for (const row of rows) {
    const more = charsOf(row);
    if (chunk.length === ROWS_PER_STATEMENT || (chunk.length > 0 && chars + more > CHARS_PER_STATEMENT)) {
      yield chunk;
      chunk = [];
      chars = 0;
    }
    chunk.push(row);
    chars += more;
  }
  if (chunk.length > 0) yield chunk;
}
