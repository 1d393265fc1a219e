import { TOOL_PROMPT_TOKENS } from '@nightshift/agent-core';
import type { CursorReading, FleetAgent, NewRun } from '@nightshift/db';
import type { Span } from '../fleet/plan-agent.ts';
import { MAX_STEPS_DEFAULT, type RewriteRequest } from '../request.ts';
import { toCap, toMessages } from '../to-runs.ts';
import { REWRITE_PROMPT } from './prompt.ts';
import { escapeTags, planTranscript, toMinute, tokensOf, type TranscriptPart } from './transcript.ts';

/** Default of `cursor` in a memory rewrite. */
export const REWRITE_CURSOR_DEFAULT = 'memory_rewrite';
/** Default of `parts_max`. */
export const PARTS_MAX_DEFAULT = 8;

/** The rows that the rewrite of an agent's memory depends on. */
export interface RewriteFacts {
  readonly agent: Pick<
    FleetAgent,
    'id' | 'name' | 'description' | 'system' | 'context_window_limit' | 'blocks' | 'last_run'
  >;
  /** The new messages under the cursor; null without a cursor. */
  readonly reading: RewriteReading | null;
  /** The tick that makes the batch; null without a schedule. */
  readonly tick_due_at: Date | null;
  /** The time of the batch, the same for all its portions. */
  readonly accepted_at: Date;
}

export type RewriteReading = Pick<CursorReading, 'position' | 'top_seq' | 'messages' | 'is_cut'>;

/** Messages of the agent's conversation that a run is given: after `from_seq`, up to `to_seq`. */
export type RewriteSpan = Omit<Span, 'top_seq'>;

export type RewriteSkip = 'missing_block' | 'read_only_block' | 'nothing_new';

export type RewritePlan =
  | {
      /** In order; several form a sequence. */
      readonly runs: readonly NewRun[];
      /** The span of each run; null for a run that reads a middle piece of a message, and without a cursor. */
      readonly spans: readonly (RewriteSpan | null)[];
      /** Labels of blocks to create empty, attached to the agent, before the runs. */
      readonly create: readonly string[];
    }
  | { readonly skip: RewriteSkip };

/** Plans the runs that rewrite one agent's memory, or the reason to skip it. */
export function planRewrite(facts: RewriteFacts, request: RewriteRequest): RewritePlan {
  const { reading } = facts;
  const { blocks } = facts.agent;
  const missing = request.blocks.filter((label) => !blocks.some((block) => block.label === label));
  if (missing.length > 0 && request.create_blocks !== true) return { skip: 'missing_block' };
  if (blocks.some(({ label, read_only }) => read_only && request.blocks.includes(label)))
    return { skip: 'read_only_block' };
  const create = [...new Set(missing)];
  if (reading === null) return { runs: [runOf(facts, request, null, NO_PARTS)], spans: [null], create };
  if (reading.messages.length === 0) return { skip: 'nothing_new' };
  const { parts, is_cut } = planTranscript(
    reading.messages,
    partTokens(facts, request),
    request.parts_max ?? PARTS_MAX_DEFAULT,
  );
  return {
    runs: parts.map((part, index) => runOf(facts, request, part, { number: index + 1, total: parts.length })),
    spans: spansOf(parts, reading, is_cut),
    create,
  };
}

interface PartNumber {
  readonly number: number;
  readonly total: number;
}
const NO_PARTS: PartNumber = { number: 1, total: 1 };

/** Share of the context window that new messages may take. */
const TRANSCRIPT_SHARE = 1 / 2;
/** The least share, however large prompt and memory are; the window's own check ends a run that does not fit. */
const TRANSCRIPT_SHARE_MIN = 1 / 8;
/** Tokens kept free for thoughts, calls and their results. */
const ANSWER_TOKENS = 16_384;

/** Returns the tokens that the new messages of one run may take. */
function partTokens({ agent }: RewriteFacts, request: RewriteRequest): number {
  const window = agent.context_window_limit;
  const texts = [promptOf(request), request.instruction ?? '', agent.system];
  const memory = agent.blocks.map(
    ({ label, description, value }) => `${label} ${description ?? ''} ${value}`,
  );
  const fixed = [...texts, ...memory].reduce((sum, text) => sum + tokensOf(text), TOOL_PROMPT_TOKENS);
  const room = Math.min(window * TRANSCRIPT_SHARE, window - fixed - Math.min(ANSWER_TOKENS, window / 4));
  return Math.floor(Math.max(room, window * TRANSCRIPT_SHARE_MIN));
}

function spansOf(
  parts: readonly TranscriptPart[],
  { position, top_seq, is_cut }: RewriteReading,
  isPlanCut: boolean,
): readonly (RewriteSpan | null)[] {
  let from_seq = position;
  return parts.map(({ to_seq }, index) => {
    if (to_seq === null) return null;
    const isEnd = index === parts.length - 1 && !is_cut && !isPlanCut;
    const span = { from_seq, to_seq: isEnd ? Math.max(to_seq, top_seq) : to_seq };
    from_seq = to_seq;
    return span;
  });
}

const NO_TOOLS: NonNullable<NewRun['client_tools']> = [];

function runOf(
  facts: RewriteFacts,
  request: RewriteRequest,
  part: TranscriptPart | null,
  place: PartNumber,
): NewRun {
  const { id } = facts.agent;
  return {
    agent_id: id,
    custom_id: null,
    max_steps: request.max_steps ?? MAX_STEPS_DEFAULT,
    messages: toMessages({ input: inputOf(facts, request, part, place) }),
    isolated: true,
    sequence: place.total > 1 ? id : null,
    client_tools: NO_TOOLS,
    result_format: 'none',
    cap: toCap({
      max_cost_usd: request.max_cost_usd_per_run,
      max_output_tokens: request.max_output_tokens_per_run,
    }),
    model: request.model ?? null,
    system: promptOf(request),
    memory_tools_only: true,
    writable_labels: request.blocks,
  };
}

function promptOf({ prompt }: RewriteRequest): string {
  return prompt ?? REWRITE_PROMPT;
}

/** Returns the user message: equal for all agents at first, then the agent's own parts. */
function inputOf(
  facts: RewriteFacts,
  request: RewriteRequest,
  part: TranscriptPart | null,
  place: PartNumber,
): string {
  const { agent } = facts;
  const { instruction } = request;
  return [
    element('task', taskOf(facts, request, part, place)),
    ...(instruction == null || instruction.trim() === ''
      ? []
      : [element('instruction', escapeTags(instruction))]),
    element('agent_system_prompt', escapeTags(agent.system)),
    ...(part === null ? [] : [element('new_messages', part.entries.join('\n'))]),
    'Bring the blocks of the task up to date now. Make no call if nothing changed.',
  ].join('\n\n');
}

function taskOf(
  { agent, tick_due_at, accepted_at }: RewriteFacts,
  { blocks }: RewriteRequest,
  part: TranscriptPart | null,
  { number, total }: PartNumber,
): string {
  const lines = [
    `Blocks to rewrite: ${blocks.map(escapeTags).join(', ')}. Every other block is context only.`,
    `The time is ${toMinute(tick_due_at ?? accepted_at)}.`,
    ...(agent.last_run === null
      ? []
      : [`The memory was last rewritten at ${toMinute(new Date(agent.last_run.ended_at))}.`]),
    `The agent is called ${oneLine(agent.name)}.`,
    ...(agent.description === null || agent.description.trim() === ''
      ? []
      : [`Its description: ${oneLine(agent.description)}`]),
  ];
  if (part === null) lines.push('There are no new messages: put the blocks in order.');
  if (total > 1)
    lines.push(
      `The new messages come in ${total} parts, oldest first. This is part ${number}; the blocks hold what the parts before ` +
        'it brought. A message may be continued from or in another part.',
    );
  return lines.join('\n');
}

function oneLine(text: string): string {
  return escapeTags(text.replace(/\s+/g, ' ').trim());
}

function element(tag: string, content: string): string {
  return `<${tag}>\n${content}\n</${tag}>`;
}
