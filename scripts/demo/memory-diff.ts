import { diffLines } from 'diff';

/** Renders a change of a memory line by line, with some unchanged lines. */
export function renderDiff(
  before: string,
  after: string,
  options: { readonly colour: boolean; readonly linesMax: number },
): string {
  const paint = (code: number, text: string): string =>
    options.colour ? `\u001b[${code}m${text}\u001b[0m` : text;
  const lines = diffLines(before, after).flatMap(({ added, removed, value }) => {
    const own = value.replace(/\n$/, '').split('\n');
    if (added) return own.map((line) => paint(32, `    + ${line}`));
    if (removed) return own.map((line) => paint(31, `    - ${line}`));
    return own.length <= 2
      ? own.map((line) => `      ${line}`)
      : [`      ${own[0] ?? ''}`, `      … ${own.length - 1} more unchanged`];
  });
  const shown = lines
    .slice(0, options.linesMax)
    .map((line) => (line.length > 118 ? `${line.slice(0, 117)}…` : line));
  if (lines.length > shown.length) shown.push(`      … ${lines.length - shown.length} more lines`);
  return shown.join('\n');
}
