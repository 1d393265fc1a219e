/** The part of Stryker's report (mutation-testing-report-schema) that the command prints. */
export interface MutationReport {
  readonly files: Readonly<Record<string, MutatedFile>>;
}

interface MutatedFile {
  readonly source: string;
  readonly mutants: readonly Mutant[];
}

interface Mutant {
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly status: string;
  readonly location: { readonly start: Position; readonly end: Position };
}

interface Position {
  readonly line: number;
  readonly column: number;
}

const CAUGHT = new Set(['Killed', 'Timeout']);
const MISSED = new Set(['Survived', 'NoCoverage']);

interface Score {
  readonly caught: number;
  readonly missed: number;
}

/** A line for each file and one for all: mutants, how many were caught, and the share. */
export function scoreTable({ files }: MutationReport): string {
  const rows = Object.entries(files).map(([file, { mutants }]) => [file, scoreOf(mutants)] as const);
  const all = scoreOf(Object.values(files).flatMap(({ mutants }) => mutants));
  const width = Math.max(...rows.map(([file]) => file.length), 'together'.length) + 2;
  return [...rows.filter(([, { caught, missed }]) => caught + missed > 0), ['together', all] as const]
    .map(([name, { caught, missed }]) => {
      const share = caught + missed === 0 ? '' : `${((100 * caught) / (caught + missed)).toFixed(1)} %`;
      return `${name.padEnd(width)}${String(caught).padStart(6)} of ${String(caught + missed).padStart(6)}${share.padStart(9)}`;
    })
    .join('\n');
}

function scoreOf(mutants: readonly Mutant[]): Score {
  return {
    caught: mutants.filter(({ status }) => CAUGHT.has(status)).length,
    missed: mutants.filter(({ status }) => MISSED.has(status)).length,
  };
}

/** A line for each mutant that no test noticed: its place, the code and its replacement. */
export function survivorsOf({ files }: MutationReport): string[] {
  return Object.entries(files).flatMap(([file, { source, mutants }]) =>
    mutants
      .filter(({ status }) => MISSED.has(status))
      .map((mutant) => {
        const { line, column } = mutant.location.start;
        const reached = mutant.status === 'NoCoverage' ? ' (no test reaches it)' : '';
        const from = shorten(codeAt(source, mutant));
        return `${file}:${line}:${column}  ${from}  ->  ${shorten(mutant.replacement ?? mutant.mutatorName)}${reached}`;
      }),
  );
}

/** Lines and columns count from 1. */
function codeAt(source: string, { location: { start, end } }: Mutant): string {
  const lines = source.split('\n').slice(start.line - 1, end.line);
  const last = lines.length - 1;
  return lines
    .map((line, at) => line.slice(at === 0 ? start.column - 1 : 0, at === last ? end.column - 1 : undefined))
    .join('\n');
}

function shorten(code: string): string {
  const flat = code.replaceAll(/\s+/g, ' ').trim();
  return flat.length <= 90 ? flat : `${flat.slice(0, 60)} ... ${flat.slice(-25)}`;
}
