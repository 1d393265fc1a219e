import type { BlockView } from '../model/block.ts';
import { neutraliseClosingTags, tagNames, toTagName } from './closing-tags.ts';
import { codePointLength } from './text.ts';

/** Options of the memory section. */
export interface CompileOptions {
  /** Letta's agent type. */
  readonly agent_type: string;
  /** Provider part of the model handle, such as `anthropic`. */
  readonly model_provider: string;
}

const WITHOUT_MEMORY: ReadonlySet<string> = new Set(['react_agent', 'workflow_agent']);
const WITH_LINE_NUMBERS: ReadonlySet<string> = new Set([
  'sleeptime_agent',
  'memgpt_v2_agent',
  'letta_v1_agent',
]);

const OPENING =
  '<memory_blocks>\nThe following memory blocks are currently engaged in your core memory unit:\n\n';
const CLOSING = '\n</memory_blocks>';
const NO_BLOCKS = `${OPENING}${CLOSING}`;
/** Letta's wording, so that prompts equal Letta's. */
const LINE_NUMBER_BANNER =
  "# NOTE: Line numbers shown below (with arrows like '1→') are to help during editing. " +
  'Do NOT include line number prefixes in your memory edit tool calls.';

/**
 * Compiles an agent's memory into Letta's `<memory_blocks>` section, byte for byte, with the blocks in the given order.
 * Only closing tags of the section itself in a label, description or value differ: `<\/…>`, so that stored text cannot
 * pose as the prompt. Memory calls undo that. Depends on its arguments alone, so a repeated encoding is equal.
 * `''` for agents without a memory section and without blocks, as in Letta; the form with line numbers keeps its frame.
 */
export function compileMemory(blocks: readonly BlockView[], options: CompileOptions): string {
  if (WITHOUT_MEMORY.has(options.agent_type)) return '';
  const numbered = options.model_provider === 'anthropic' && WITH_LINE_NUMBERS.has(options.agent_type);
  if (blocks.length === 0) return numbered ? NO_BLOCKS : '';

  const tags = tagNames(blocks.map(({ label }) => label));
  return OPENING + blocks.map((block) => compileBlock(block, tags, numbered)).join('\n') + CLOSING;
}

function compileBlock(block: BlockView, tags: ReadonlySet<string>, numbered: boolean): string {
  const tag = toTagName(block.label);
  const value = neutraliseClosingTags(block.value, tags);
  return (
    `<${tag}>\n` +
    `<description>\n${neutraliseClosingTags(block.description ?? '', tags)}\n</description>\n` +
    `<metadata>${block.read_only ? '\n- read_only=true' : ''}` +
    `\n- chars_current=${codePointLength(block.value)}\n- chars_limit=${block.char_limit}\n</metadata>\n` +
    (numbered ? `<warning>\n${LINE_NUMBER_BANNER}\n</warning>\n` : '') +
    `<value>\n${numbered ? numberLines(value) : `${value}\n`}</value>\n` +
    `</${tag}>\n`
  );
}

function numberLines(value: string): string {
  if (value === '') return '';
  return value
    .split('\n')
    .map((line, index) => `${index + 1}→ ${line}\n`)
    .join('');
}
