/** What a seed's users ask for: agents, batches, and scripts for the model. */
import {
  acceptBatch,
  createAgents,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  newConversationId,
  newId,
  type Database,
} from '../libs/db/src/index.ts';
import { scriptText, type Turn } from './model.ts';
import { POISON } from './provider.ts';
import type { Random } from './random.ts';

export interface PlannedRun {
  readonly name: string;
  /** Index of its agent among the seed's agents. */
  readonly agent: number;
  readonly turns: readonly Turn[];
  readonly max_steps: number;
  readonly isolated: boolean;
}

export interface PlannedBatch {
  readonly atMs: number;
  readonly runs: readonly PlannedRun[];
  /** When its user cancels it, after it was accepted; null: never. */
  readonly cancelAfterMs: number | null;
  readonly wantsCallback: boolean;
}

export interface Workload {
  readonly agents: number;
  readonly batches: readonly PlannedBatch[];
}

const TOOL_NAMES = ['core_memory_append', 'look_up', 'note_idempotent', 'note_once'];

/** Draws what a seed's users do. `cancelled`: share of the batches that they cancel. */
export function drawWorkload(
  random: Random,
  { cancelled, cancelledWithinMs } = { cancelled: 0.25, cancelledWithinMs: 40_000 },
): Workload {
  const agents = random.int(2, 6);
  const batchCount = random.int(1, 3);
  const batches = Array.from({ length: batchCount }, (_, batch): PlannedBatch => ({
    atMs: batch === 0 ? 0 : random.int(0, 30_000),
    cancelAfterMs: random.chance(cancelled) ? random.int(0, cancelledWithinMs) : null,
    wantsCallback: random.chance(0.3),
    runs: Array.from({ length: random.int(1, 5) }, (_, run) => drawRun(random, `b${batch}r${run}`, agents)),
  }));
  return { agents, batches };
}

function drawRun(random: Random, name: string, agents: number): PlannedRun {
  const turns = Array.from({ length: random.int(0, 3) }, (_, turn) => drawTurn(random, `${name}t${turn}`));
  if (random.chance(0.04)) turns.unshift({ text: POISON });
  return {
    name,
    agent: random.int(0, agents - 1),
    turns,
    max_steps: random.chance(0.1) ? random.int(1, 2) : 10,
    isolated: random.chance(0.2),
  };
}

function drawTurn(random: Random, name: string): Turn {
  if (random.chance(0.05)) return { text: name, stop: 'pause_turn' };
  if (random.chance(0.02)) return { text: name, stop: 'refusal' };
  const calls = Array.from({ length: random.int(1, 3) }, (_, index) => drawCall(random, `${name}c${index}`));
  return { text: name, calls, ...(random.chance(0.05) ? { cut: true } : {}) };
}

function drawCall(
  random: Random,
  name: string,
): { readonly tool: string; readonly args: Record<string, unknown> } {
  const draw = random.next();
  if (draw < 0.05) return { tool: 'no_such_tool', args: {} };
  if (draw < 0.1) return { tool: 'note_once', args: { loud: name } };
  if (draw < 0.4) return { tool: 'core_memory_append', args: { label: 'notes', content: `<${name}>` } };
  return {
    tool: random.pick(['look_up', 'note_idempotent', 'note_once', 'note_once']),
    args: { note: name },
  };
}

/** Stores the seed's agents; returns their ids. */
export async function storeAgents(db: Database, count: number): Promise<readonly string[]> {
  const tools = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: TOOL_NAMES });
  const ids = Array.from({ length: count }, () => newId());
  await inTransaction(db, (trx) =>
    createAgents(
      trx,
      DEFAULT_PROJECT_ID,
      ids.map((id, index) => ({
        id,
        conversation_id: newConversationId(),
        name: `agent ${index}`,
        description: null,
        agent_type: 'letta_v1_agent',
        system: 'You take notes.',
        model: 'anthropic/claude-haiku-4-5',
        model_settings: { max_output_tokens: 1024, parallel_tool_calls: true, extra: {} },
        tool_rules: [],
        metadata: null,
        tags: [],
        timezone: 'UTC',
        message_buffer_autoclear: index % 4 === 3,
        context_window_limit: 200_000,
        hidden: false,
        echoed: {},
        blocks: [
          {
            id: newId(),
            label: 'notes',
            value: '',
            description: null,
            char_limit: 100_000,
            read_only: false,
            metadata: {},
            tags: [],
            is_template: false,
            hidden: false,
          },
        ],
        block_ids: [],
        tool_ids: tools.map((tool) => tool.id),
      })),
    ),
  );
  return ids;
}

/** Has a batch accepted, as the API does; returns its id and its runs' ids. */
export async function storeBatch(
  db: Database,
  agentIds: readonly string[],
  batch: PlannedBatch,
): Promise<{ readonly id: string; readonly run_ids: readonly string[] }> {
  const id = newId();
  const { run_ids } = await inTransaction(db, (trx) =>
    acceptBatch(trx, DEFAULT_PROJECT_ID, {
      id,
      callback_url: batch.wantsCallback ? 'https://receiver.example/' : null,
      metadata: null,
      idempotency: null,
      runs: batch.runs.map((run) => ({
        agent_id: agentIds[run.agent] ?? '',
        custom_id: run.name,
        max_steps: run.max_steps,
        isolated: run.isolated,
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: scriptText(run.name, run.turns) }],
            otid: null,
            name: null,
          },
        ],
      })),
    }),
  );
  return { id, run_ids };
}
