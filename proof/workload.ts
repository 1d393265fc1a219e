/** Draws the work of a seed: agents, batches, and scripts for the model. */
import {
  CALLBACK_EVENTS,
  type CompactionPolicy,
  type PilotSettings,
  type ToolDefinition,
} from '../libs/agent-core/src/index.ts';
import {
  createAgents,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  newId,
  type Database,
} from '../libs/db/src/index.ts';
import { acceptBatch } from '../libs/db/src/testing/index.ts';
import { agentOf, emptyNotes } from '../scripts/stack/agents.ts';
import { scriptText, type Turn } from './model.ts';
import { drawNights, NO_NIGHTS, type Nights } from './nights.ts';
import { POISON } from './provider.ts';
import type { Random } from './random.ts';
import {
  ARCHIVE_TOOL,
  CLIENT_TOOL,
  drawAgentTraits,
  drawBatchTraits,
  drawPilot,
  PLAIN_AGENT,
  PLAIN_BATCH,
  type AgentTraits,
  type BatchTraits,
} from './traits.ts';

export interface PlannedRun {
  readonly name: string;
  /** Index of its agent. */
  readonly agent: number;
  readonly turns: readonly Turn[];
  readonly max_steps: number;
  readonly isolated: boolean;
  /** Whether its caller provides a tool. */
  readonly asks?: boolean;
}

export interface PlannedBatch {
  readonly atMs: number;
  readonly runs: readonly PlannedRun[];
  /** Milliseconds from its acceptance to its cancel; null for never. */
  readonly cancelAfterMs: number | null;
  readonly wantsCallback: boolean;
  /** Whether the callback reports events too. Default: false. */
  readonly wantsEvents?: boolean;
  /** Default: {@link PLAIN_BATCH}. */
  readonly traits?: BatchTraits;
  /** Default: none. */
  readonly pilot?: PilotSettings | null;
}

export interface Workload {
  readonly agents: number;
  /** By agent; default: {@link PLAIN_AGENT}. */
  readonly agentTraits?: readonly AgentTraits[];
  readonly batches: readonly PlannedBatch[];
  /** Default: none. */
  readonly nights?: Nights;
}

const TOOL_NAMES = ['core_memory_append', 'look_up', 'note_idempotent', 'note_once', ARCHIVE_TOOL];

/** Draws a seed's work. `everyoneArchives`: every agent has an archive, and most of its runs write to it. */
export function drawWorkload(
  random: Random,
  { everyoneArchives = false }: { readonly everyoneArchives?: boolean } = {},
): Workload {
  const agents = random.int(2, 6);
  const batchCount = random.int(1, 3);
  // Independent streams, so that the plain workload stays the same.
  const traits = random.fork('traits');
  const pilots = random.fork('pilots');
  const agentTraits = Array.from({ length: agents }, () => drawAgentTraits(traits)).map((drawn) =>
    everyoneArchives ? { ...drawn, archive: true } : drawn,
  );
  const batches = Array.from({ length: batchCount }, (_, batch): PlannedBatch => ({
    traits: drawBatchTraits(traits),
    pilot: drawPilot(pilots),
    atMs: batch === 0 ? 0 : random.int(0, 30_000),
    cancelAfterMs: random.chance(0.25) ? random.int(0, 40_000) : null,
    wantsCallback: random.chance(0.3),
    runs: Array.from({ length: random.int(1, 5) }, (_, run) =>
      withTraits(traits, drawRun(random, `b${batch}r${run}`, agents), agentTraits),
    ),
  }));
  const nights = drawNights(random.fork('nights'), agents);
  return {
    agents,
    agentTraits,
    batches: nights === NO_NIGHTS ? batches : batches.map(withoutPoison),
    nights,
  };
}

/** Leaves out answers that no request may show: nights show the answers of other runs. */
export function withoutPoison(batch: PlannedBatch): PlannedBatch {
  const runs = batch.runs.map((run) => ({ ...run, turns: run.turns.filter(({ text }) => text !== POISON) }));
  return { ...batch, runs };
}

/** Adds turns for the caller's tool and the archive. */
function withTraits(random: Random, run: PlannedRun, agents: readonly AgentTraits[]): PlannedRun {
  const asks = random.chance(0.2);
  const calls = [
    ...(asks ? [{ tool: CLIENT_TOOL, args: { question: run.name } }] : []),
    ...(agents[run.agent]?.archive === true && random.chance(0.7)
      ? [{ tool: ARCHIVE_TOOL, args: { content: `kept by ${run.name}`, tags: [run.name] } }]
      : []),
  ];
  if (calls.length === 0) return run;
  const at = random.int(0, run.turns.length);
  const turn: Turn = { text: `${run.name}extra`, calls };
  return { ...run, asks, turns: run.turns.toSpliced(at, 0, turn) };
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

/** Stores the seed's agents and returns their ids. */
export async function storeAgents(
  db: Database,
  { agents, agentTraits = [] }: Workload,
): Promise<readonly string[]> {
  const tools = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: TOOL_NAMES });
  const rows = Array.from({ length: agents }, (_, index) => {
    const traits = agentTraits[index] ?? PLAIN_AGENT;
    const own = tools.filter(({ name }) => name !== ARCHIVE_TOOL || traits.archive).map(({ id }) => id);
    return agentOf(own, {
      name: `agent ${index}`,
      system: 'You take notes.',
      tool_rules: traits.rules,
      message_buffer_autoclear: index % 4 === 3,
      ...compactionOf(traits),
      blocks: [emptyNotes({ char_limit: 100_000 })],
    });
  });
  await inTransaction(db, (trx) => createAgents(trx, DEFAULT_PROJECT_ID, rows));
  return rows.map(({ id }) => id);
}

function compactionOf({ buffer }: AgentTraits): { readonly compaction?: CompactionPolicy } {
  return buffer === null ? {} : { compaction: { mode: 'static_buffer', ...buffer } };
}

const CLIENT_TOOLS: readonly ToolDefinition[] = [
  {
    name: CLIENT_TOOL,
    kind: 'client',
    description: 'Asks the user.',
    input_schema: { type: 'object', properties: { question: { type: 'string' } } },
    side_effects: 'none',
    return_char_limit: 1_000,
    timeout_ms: 1_000,
    requires_approval: false,
  },
];

/** Stores a batch as the API does. Returns its id and the ids of its runs. */
export async function storeBatch(
  db: Database,
  agentIds: readonly string[],
  batch: PlannedBatch,
): Promise<{ readonly id: string; readonly run_ids: readonly string[] }> {
  const id = newId();
  const { accepted, cap, runCap } = batch.traits ?? PLAIN_BATCH;
  const { run_ids } = await inTransaction(db, (trx) =>
    acceptBatch(trx, DEFAULT_PROJECT_ID, {
      id,
      callback_url: batch.wantsCallback ? 'https://receiver.example/' : null,
      callback_events: batch.wantsEvents === true ? CALLBACK_EVENTS : [],
      metadata: null,
      idempotency: null,
      apply: accepted === null ? 'auto' : 'review',
      ...(cap === null ? {} : { cap }),
      pilot: batch.pilot ?? null,
      runs: batch.runs.map((run) => ({
        agent_id: agentIds[run.agent] ?? '',
        custom_id: run.name,
        max_steps: run.max_steps,
        isolated: run.isolated,
        client_tools: run.asks === true ? CLIENT_TOOLS : [],
        ...(runCap === null ? {} : { cap: runCap }),
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
