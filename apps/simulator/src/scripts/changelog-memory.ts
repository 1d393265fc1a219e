import type { ContentBlock, JsonObject } from './script.ts';

/** A tool call, as the script wants it made. */
export interface PlannedCall {
  readonly name: string;
  readonly input: JsonObject;
}

/**
 * The blocks that the system prompt shows, by label; `undefined` when it shows no memory at all. Line numbers
 * (`1→ `) are taken off, and closing tags that were written `<\/…>` so as not to end the section are put
 * back.
 */
export function readMemory(system: string | ContentBlock[] | undefined): Map<string, string> | undefined {
  const text =
    typeof system === 'string'
      ? system
      : (system ?? []).map((block) => (typeof block.text === 'string' ? block.text : '')).join('\n');
  const start = text.lastIndexOf('<memory_blocks>');
  if (start === -1) return undefined;
  const blocks = new Map<string, string>();
  let rest = text.slice(start);
  for (;;) {
    const opening = /^<([^/<>\s]+)>\n(?=<description>|<metadata>|<value>)/m.exec(rest);
    if (opening === null) return blocks;
    const label = opening[1] ?? '';
    const body = rest.slice(opening.index + opening[0].length);
    const closing = `\n</value>\n</${label}>`;
    const from = body.indexOf('<value>\n');
    const to = body.indexOf(closing, from);
    if (from === -1 || to === -1) return blocks;
    const value = withoutLineNumbers(body.slice(from + '<value>\n'.length, to));
    blocks.set(label, value.replaceAll('<\\/', '</'));
    rest = body.slice(to + closing.length);
  }
}

function withoutLineNumbers(value: string): string {
  const lines = value.split('\n');
  return lines.every((line) => /^\d+→ ?/.test(line))
    ? lines.map((line) => line.replace(/^\d+→ ?/, '')).join('\n')
    : value;
}

/**
 * The calls that set a block to `wanted` whatever it holds; which name serves depends on the tools offered.
 */
export function rewrites(label: string, wanted: string): PlannedCall[] {
  return [
    { name: 'memory_rethink', input: { label, new_memory: wanted } },
    { name: 'rethink_memory', input: { new_memory: wanted, target_block_label: label } },
  ];
}

/**
 * The calls that turn a block from `current` into `wanted` by an addition where that is enough, else by a
 * replacement of the lines that differ; none when neither is safe. Each of them alone is enough.
 */
export function edits(label: string, current: string, wanted: string): PlannedCall[] {
  return current === '' ? fillings(label, wanted) : changes(label, current, wanted);
}

function fillings(label: string, wanted: string): PlannedCall[] {
  return [
    { name: 'memory_insert', input: { label, new_string: wanted, insert_line: 0 } },
    { name: 'core_memory_append', input: { label, content: wanted } },
  ];
}

/** Calls that change only the lines between the common start and the common end of the two values. */
function changes(label: string, current: string, wanted: string): PlannedCall[] {
  const [old, next] = [current.split('\n'), wanted.split('\n')];
  let start = 0;
  while (start < Math.min(old.length, next.length) && old[start] === next[start]) start += 1;
  let end = 0;
  while (
    end < Math.min(old.length, next.length) - start &&
    old[old.length - 1 - end] === next[next.length - 1 - end]
  ) {
    end += 1;
  }

  if (old.length === start + end) {
    const added = next.slice(start, next.length - end).join('\n');
    const insertion = { name: 'memory_insert', input: { label, new_string: added, insert_line: start } };
    const appended = { name: 'core_memory_append', input: { label, content: added } };
    return end === 0 ? [insertion, appended] : [insertion];
  }
  // A removal takes a neighbouring line along, else an empty line would stay behind.
  if (next.length === start + end) {
    if (start > 0) start -= 1;
    else if (end > 0) end -= 1;
  }
  const from = old.slice(start, old.length - end).join('\n');
  const to = next.slice(start, next.length - end).join('\n');
  // The tool expands tabs everywhere and wants a text that occurs once.
  if (current.includes('\t') || from.trim() === '' || current.split(from).length !== 2) return [];
  return [
    { name: 'memory_replace', input: { label, old_string: from, new_string: to } },
    { name: 'core_memory_replace', input: { label, old_content: from, new_content: to } },
  ];
}
