import type { PlannedCall } from './plan.ts';
import type { MessageParams } from './script.ts';
import { blocksOf } from './turns.ts';

/** A memory block as a request shows it. */
interface ShownBlock {
  readonly label: string;
  readonly description: string;
  readonly value: string;
  /** Unit: characters. */
  readonly limit: number;
}

interface NewMessage {
  readonly role: string;
  /** Day on which it was said. */
  readonly day: string;
  readonly lines: readonly string[];
}

const TASK = /^<task>\nBlocks to rewrite: (.+)\. Every other block is context only\.$/m;
const LINE_CHARS_MAX = 400;
/** A Markdown heading, or a line outside of lists that ends with a colon or is at most three words. */
const HEADING = /^(?:#{1,6}\s|(?![-*+]\s|\d+[.)]\s)(?:\S.*:\**|[\p{L}*]+(?: [\p{L}*]+){0,2})$)/u;

/** Returns the labels that a memory rewrite asks for; null for any other text. */
export function labelsToRewrite(text: string): readonly string[] | null {
  return TASK.exec(text)?.[1]?.split(', ') ?? null;
}

/**
 * Plans the memory calls of a rewrite, all for one turn; none without new facts.
 * The first block gets the first line of each user message, every other block the lines that belong to it (see
 * {@link linesFor}). In the first block a line `Name: text` replaces the line of that name.
 */
export function planRewrite(
  params: MessageParams,
  text: string,
  labels: readonly string[],
): readonly PlannedCall[] {
  const messages = newMessagesIn(text).filter(({ role }) => role === 'user');
  return labels.flatMap((label, index) => {
    const block = shownBlock(params, label);
    if (block === null) return [];
    const lines = messages.flatMap(({ day, lines: said }) =>
      (index === 0 ? said.slice(0, 1) : linesFor(block, said)).map((line) => `- ${line} (${day})`),
    );
    return planWrites(block, lines, { replacesNamed: index === 0 });
  });
}

/**
 * Returns the lines that belong to a block: those with the first word of its label or with a phrase that its description
 * lists in parentheses, and the list items below a heading with either.
 */
function linesFor({ label, description }: ShownBlock, lines: readonly string[]): readonly string[] {
  const listed = [...description.matchAll(/\(([^()]*)\)/g)].flatMap(([, list = '']) => list.split(/,\s*/));
  const phrases = [label.split(/[^a-z]/i)[0] ?? '', ...listed].map((phrase) => phrase.trim().toLowerCase());
  const belongs = (line: string): boolean =>
    phrases.some((phrase) => phrase !== '' && line.toLowerCase().includes(phrase));
  let isBelow = false;
  return lines.flatMap((line) => {
    if (HEADING.test(line)) {
      isBelow = belongs(line);
      return [];
    }
    return belongs(line) || (isBelow && /^\s*([-*+]|\d+[.)])\s/.test(line)) ? [toItem(line)] : [];
  });
}

function toItem(line: string): string {
  return line
    .replaceAll('\t', ' ')
    .replace(/^\s*(?:(?:[-*+]|\d+[.)])\s+)?/, '')
    .slice(0, LINE_CHARS_MAX)
    .trimEnd();
}

/** Plans the smallest calls that bring the lines into a block. */
function planWrites(
  { label, value, limit }: ShownBlock,
  lines: readonly string[],
  { replacesNamed }: { readonly replacesNamed: boolean },
): readonly PlannedCall[] {
  const before = value === '' ? [] : value.split('\n');
  const after = [...before];
  const added: string[] = [];
  const replaced = new Set<number>();
  for (const line of lines) {
    if (after.includes(line) || added.includes(line)) continue;
    const name = replacesNamed ? /^- [^:]{1,40}: /.exec(line)?.[0] : undefined;
    const isNamed = (other: string): boolean => name !== undefined && other.startsWith(name);
    const old = after.findIndex(isNamed);
    const pending = added.findIndex(isNamed);
    if (old >= 0) {
      after[old] = line;
      replaced.add(old);
    } else if (pending >= 0) added[pending] = line;
    else added.push(line);
  }
  if (added.length === 0 && replaced.size === 0) return [];
  const whole = [...after, ...added];
  const isTooLong = whole.join('\n').length > limit;
  const isUnique = [...replaced].every((place) => value.split(before[place] ?? '').length === 2);
  if (value === '' || isTooLong || !isUnique)
    return [{ tool: 'memory_rethink', args: { label, new_memory: newestWithin(whole, limit) } }];
  return [
    ...[...replaced].map((place) => ({
      tool: 'memory_replace',
      args: { label, old_string: before[place] ?? '', new_string: after[place] ?? '' },
    })),
    ...(added.length === 0
      ? []
      : [{ tool: 'memory_insert', args: { label, new_string: added.join('\n'), insert_line: -1 } }]),
  ];
}

/** Leaves out the oldest lines of a text beyond the limit. */
function newestWithin(lines: readonly string[], limit: number): string {
  let from = 0;
  while (from < lines.length && lines.slice(from).join('\n').length > limit) from++;
  return lines.slice(from).join('\n');
}

function newMessagesIn(text: string): readonly NewMessage[] {
  const messages = text.matchAll(/^<message role="(\w+)" at="([\d-]+)[^>]*>\n([\s\S]*?)\n<\/message>$/gm);
  return [...messages].map(([, role = '', day = '', content = '']) => ({
    role,
    day,
    lines: content.split('\n').filter((line) => line.trim() !== ''),
  }));
}

/** Finds a block in the memory section of the system prompt; null if it is not shown. */
function shownBlock({ system }: MessageParams, label: string): ShownBlock | null {
  const text = blocksOf({ role: 'system', content: system ?? '' })
    .map((block) => (typeof block['text'] === 'string' ? block['text'] : ''))
    .join('\n');
  const [, section] = text.split(`\n<${label}>\n<description>\n`);
  const parts =
    /^([\s\S]*?)\n<\/description>\n<metadata>([\s\S]*?)<\/metadata>\n[\s\S]*?<value>\n([\s\S]*?)<\/value>/.exec(
      section ?? '',
    );
  if (parts === null) return null;
  const [, description = '', metadata = '', value = ''] = parts;
  return {
    label,
    description,
    value: value.replace(/\n$/, '').replaceAll(/^\d+→ /gm, ''),
    limit: Number(/chars_limit=(\d+)/.exec(metadata)?.[1] ?? Infinity),
  };
}
