import { styleText } from 'node:util';
import type { Style } from './output.ts';
import { plainOf } from './table.ts';
import { layOut, wordDiff, type DiffLine, type Kind } from './word-diff.ts';

/** Colours a text. */
export type Paint = (style: Style, text: string) => string;

/** How a difference is shown. */
export interface DiffView {
  readonly paint: Paint;
  readonly hasColor: boolean;
  readonly columns: number;
  /** Shows all unchanged lines too. */
  readonly isWhole?: boolean;
}

/** Unchanged lines shown around a change. */
const CONTEXT = 2;
const STYLES: Readonly<Record<Exclude<Kind, 'same'>, Style>> = { removed: 'red', added: 'green' };

/** Makes the paint of a stream; without colour it changes nothing. */
export function paintOf(hasColor: boolean): Paint {
  return (style, text) => (hasColor ? styleText(style, text, { validateStream: false }) : text);
}

/** Renders two texts as a word diff in lines. */
export function renderWordDiff(before: string, after: string, view: DiffView): string[] {
  const lines = layOut(wordDiff(before, after), {
    columns: view.columns,
    context: view.isWhole === true ? Number.POSITIVE_INFINITY : CONTEXT,
    isMarked: !view.hasColor,
  });
  return lines.map((line) => renderLine(line, view.paint));
}

function renderLine(line: DiffLine, paint: Paint): string {
  if (typeof line === 'number') return paint('dim', `··· ${line} unchanged lines ···`);
  return line.map(({ kind, text }) => (kind === 'same' ? text : paint(STYLES[kind], text))).join('');
}

/** Colours the lines of a unified diff, without its header. */
export function renderUnified(diff: string, paint: Paint): string[] {
  return plainOf(diff)
    .trimEnd()
    .split('\n')
    .filter((line) => !/^(===|--- |\+\+\+ |Index: |\\ )/.test(line))
    .map((line) => {
      if (line.startsWith('+')) return paint('green', line);
      if (line.startsWith('-')) return paint('red', line);
      return line.startsWith('@@') ? paint('dim', line) : line;
    });
}
