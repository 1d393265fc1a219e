import { toCustomId, type StepKey } from '../../src/base/ids.ts';
import { decideResults } from '../../src/decide/after-tools.ts';
import { callsToPlan, decideStep } from '../../src/decide/decide-step.ts';
import { NO_TOOL_POLICY } from '../../src/decide/tool-policy.ts';
import { planCalls } from '../../src/decide/plan-calls.ts';
import type {
  AppendedMessage,
  RetryPolicy,
  RunFacts,
  RunMove,
  StepDecision,
} from '../../src/decide/decision.ts';
import type { StepCall } from '../../src/decide/step-calls.ts';
import type { StepOutcome } from '../../src/decide/step-outcome.ts';
import { applyMemoryTool } from '../../src/memory/apply.ts';
import { MEMORY_TOOLS } from '../../src/memory/definitions.ts';
import type { BlockView } from '../../src/model/block.ts';
import { isContentBlock, toolUsesOf, type ContentBlock, type ToolUseBlock } from '../../src/model/content.ts';
import type { NewToolCall, StepMemory } from '../../src/model/tool-call.ts';
import type { ToolDefinition } from '../../src/model/tool.ts';
import { transition } from '../../src/machine/machine.ts';
import { isRunEnded, runMachine } from '../../src/machine/run.ts';
import { NO_HISTORY } from '../../src/rules/history.ts';
import { createArgumentValidator } from '../../src/tools/validate.ts';
import { makeBlock } from '../memory/blocks.ts';
import { makeTool } from '../tools/tools.ts';

/*
 * Runs as rows in memory, moved by decisions alone, as a worker does without a database. Each run has its own
 * conversation and blocks. Nothing here judges; the tests assert.
 */

export const TOOLS: readonly ToolDefinition[] = [
  ...MEMORY_TOOLS,
  makeTool('lookup', { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] }),
];
const validate = createArgumentValidator();
const CONDUCT = { ...NO_TOOL_POLICY, tools: TOOLS, available: TOOLS.map((tool) => tool.name) };

export interface StepRow {
  readonly key: StepKey;
  readonly state: StepDecision['step']['state'] | 'sealed';
  readonly applies: boolean;
  readonly cost_nanousd: number | null;
  readonly stop_reason: string | null;
  /** Number of its answer's message; null for none. */
  readonly answer_seq: number | null;
}

export interface RunRow {
  readonly facts: RunFacts;
  readonly stop_reason: string | null;
  readonly messages: readonly AppendedMessage[];
  readonly blocks: readonly BlockView[];
  readonly steps: readonly StepRow[];
  /** The calls of the step whose results are awaited. */
  readonly calls: readonly NewToolCall[];
}

/** A result line: an attempt and its outcome. */
export interface Line {
  readonly key: StepKey;
  readonly outcome: StepOutcome;
}

/** Makes a run as accepting its batch leaves it: a single user message, nothing sent. */
export function acceptedRun(index: number, max_steps: number): RunRow {
  const id = `019a1b2c-3d4e-7f60-8a1b-${index.toString(16).padStart(6, '0')}000000`;
  const input = JSON.stringify([{ type: 'text', text: `task ${index}` }]);
  return {
    facts: {
      id,
      batch_state: 'running',
      state: 'ready',
      step_number: 1,
      attempt: 1,
      failures: 0,
      max_steps,
      token_boost: 0,
      last_seq: 0,
      trail: null,
      summarises_to_seq: null,
    },
    stop_reason: null,
    messages: [{ seq: 0, role: 'user', content_json: input, shown: true }],
    blocks: [
      makeBlock('human', 'Nothing is known.', { char_limit: 60 }),
      makeBlock('rules', 'Be kind.', { read_only: true }),
    ],
    steps: [],
    calls: [],
  };
}

/** Seals a ready run's next step; leaves any other run unchanged. */
export function seal(row: RunRow): RunRow {
  if (row.facts.state !== 'ready') return row;
  const { id: run_id, step_number: number, attempt } = row.facts;
  const step: StepRow = {
    key: { run_id, number, attempt },
    state: 'sealed',
    applies: false,
    cost_nanousd: 0,
    stop_reason: null,
    answer_seq: null,
  };
  return {
    ...row,
    facts: { ...row.facts, state: transition(runMachine, 'ready', 'seal') },
    steps: [...row.steps, step],
  };
}

/** Applies a line to its run, calls of built-in tools and rejected calls included, as ingest does. */
export function applyLine(row: RunRow, line: Line, retry: RetryPolicy): RunRow {
  const { facts: run } = row;
  const calls = plannedCalls(callsToPlan(run, line.key, line.outcome)).map((planned): StepCall => {
    return { planned, outcome: null };
  });
  const memory = memoryOf(row);
  const decision = decideStep(
    { run, key: line.key, retry, toolPolicy: CONDUCT, calls },
    line.outcome,
    memory,
  );
  if (decision.kind === 'refuse') return row;
  const steps = row.steps.map((step) => {
    if (!sameStep(step.key, decision.key)) return step;
    const { state, applies, cost_nanousd, stop_reason } = decision.step;
    const answer_seq = decision.messages[0]?.seq ?? null;
    return { ...step, state, applies, cost_nanousd, stop_reason, answer_seq };
  });
  const applied = { ...row, blocks: memory.blocks(), steps, calls: decision.calls };
  return moved(applied, decision.messages, decision.run);
}

/** Carries out the calls of an acting run; leaves any other run unchanged. */
export function settleCalls(row: RunRow): RunRow {
  if (row.facts.state !== 'acting') return row;
  const answer = row.messages.at(-1);
  const uses = toolUsesOf(answer === undefined ? [] : contentOf(answer.content_json));
  const calls = plannedCalls(uses).map((planned): StepCall => {
    const held = row.calls.find(({ call_index }) => call_index === planned.index);
    if (held === undefined || held.state === 'pending')
      return { planned, outcome: { ok: true, result: '42' } };
    return { planned, outcome: { ok: held.state === 'succeeded', result: held.held_result ?? '' } };
  });
  const decision = decideResults(row.facts, calls, CONDUCT);
  const steps = row.steps.map((step) =>
    step.state === 'answered' ? { ...step, state: 'done' as const } : step,
  );
  return moved({ ...row, steps, calls: [] }, [decision.message], decision.run);
}

/** The blocks of a run, which memory calls write. */
function memoryOf(row: RunRow): StepMemory & { readonly blocks: () => readonly BlockView[] } {
  let { blocks } = row;
  return {
    blocks: () => blocks,
    carryOut({ tool_name, args }) {
      const { outcome, write } = applyMemoryTool(tool_name, args, blocks);
      blocks = blocks.map((block) =>
        block.block_id === write?.block_id
          ? { ...block, value: write.value, revision: block.revision + 1 }
          : block,
      );
      return { outcome, changes: [] };
    },
  };
}

/** Cancels a run: it ends at once unless it waits for the provider. */
export function cancelRun(row: RunRow): RunRow {
  if (isRunEnded(row.facts.state)) return row;
  const facts = { ...row.facts, batch_state: 'cancelling' as const };
  if (facts.state !== 'ready') return { ...row, facts };
  return {
    ...row,
    facts: { ...facts, state: transition(runMachine, 'ready', 'cancel') },
    stop_reason: 'cancelled',
  };
}

/** A message as shown in a request. */
export interface ShownMessage {
  readonly role: string;
  readonly content: readonly ContentBlock[];
  /** An answer that the provider paused and continues itself. */
  readonly paused: boolean;
}

/** Returns the messages of the run's next request. */
export function shownMessages(row: RunRow): readonly ShownMessage[] {
  const paused = new Set(
    row.steps.flatMap((step) => (step.stop_reason === 'pause_turn' ? [step.answer_seq] : [])),
  );
  return row.messages
    .filter(({ shown }) => shown)
    .map(({ role, content_json, seq }) => ({
      role,
      content: contentOf(content_json),
      paused: paused.has(seq),
    }));
}

/** Returns the name of a line in a file, which also tells attempts apart. */
export function customIdOf(key: StepKey): string {
  return toCustomId('nonce0', key);
}

export function contentOf(contentJson: string): readonly ContentBlock[] {
  return (JSON.parse(contentJson) as readonly unknown[]).filter(isContentBlock);
}

function plannedCalls(uses: readonly ToolUseBlock[]) {
  return planCalls(uses, CONDUCT, NO_HISTORY, validate);
}

function moved(row: RunRow, messages: readonly AppendedMessage[], move: RunMove): RunRow {
  const last_seq = row.facts.last_seq + messages.length;
  const ready =
    move.state === 'ready'
      ? {
          step_number: move.step_number,
          attempt: move.attempt,
          failures: move.failures,
          token_boost: move.token_boost,
          trail: move.trail ?? row.facts.trail,
        }
      : {};
  return {
    ...row,
    facts: { ...row.facts, ...ready, state: move.state, last_seq },
    stop_reason: 'stop_reason' in move ? move.stop_reason : null,
    messages: [...row.messages, ...messages],
  };
}

function sameStep(a: StepKey, b: StepKey): boolean {
  return a.run_id === b.run_id && a.number === b.number && a.attempt === b.attempt;
}
