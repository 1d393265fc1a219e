/** Draws traits of agents and batches: rules, approvals, summaries, caps, reviews. */
import type { PilotSettings, ToolRule } from '../libs/agent-core/src/index.ts';
import type { Random } from './random.ts';

/** Behaviour of an agent beside its runs' scripts. */
export interface AgentTraits {
  readonly rules: readonly ToolRule[];
  /** Number of messages at which its conversation is summarised; null for never. */
  readonly buffer: { readonly limit: number; readonly keep: number } | null;
  /** Whether it has an archive, which its requests describe. */
  readonly archive: boolean;
}

/** Limits of a batch. */
export interface BatchTraits {
  /** Whether its held changes are accepted; null: changes are in force at once. */
  readonly accepted: boolean | null;
  readonly cap: Caps | null;
  readonly runCap: Caps | null;
}

export interface Caps {
  readonly cost_nanousd: number | null;
  readonly output_tokens: number | null;
}

export const PLAIN_AGENT: AgentTraits = { rules: [], buffer: null, archive: false };
export const PLAIN_BATCH: BatchTraits = { accepted: null, cap: null, runCap: null };

/** The tool that a run's caller answers. */
export const CLIENT_TOOL = 'ask_user';
export const ARCHIVE_TOOL = 'archival_memory_insert';

const rule = { prompt_template: null };

/** Rules for agents; a seed draws one list. */
const RULES: readonly (readonly ToolRule[])[] = [
  [{ ...rule, type: 'max_count_per_step', tool_name: 'note_once', max_count_limit: 1 }],
  [{ ...rule, type: 'exit_loop', tool_name: 'note_idempotent' }],
  [{ ...rule, type: 'required_before_exit', tool_name: 'look_up' }],
  [
    {
      ...rule,
      type: 'constrain_child_tools',
      tool_name: 'note_idempotent',
      children: ['look_up'],
      child_arg_nodes: null,
    },
  ],
  [{ ...rule, type: 'run_first', tool_name: 'look_up', args: null }],
];
const APPROVALS: readonly ToolRule[] = ['note_once', 'core_memory_append'].map((tool_name) => ({
  ...rule,
  type: 'requires_approval',
  tool_name,
}));

/** Draws an agent's traits; half of the agents are plain. */
export function drawAgentTraits(random: Random): AgentTraits {
  if (random.chance(0.5)) return PLAIN_AGENT;
  return {
    rules: [
      ...(random.chance(0.5) ? random.pick(RULES) : []),
      ...(random.chance(0.4) ? [random.pick(APPROVALS)] : []),
    ],
    buffer: random.chance(0.4) ? { limit: random.int(4, 8), keep: random.int(1, 4) } : null,
    archive: random.chance(0.4),
  };
}

/** Draws a batch's traits; half of the batches are plain. */
export function drawBatchTraits(random: Random): BatchTraits {
  if (random.chance(0.5)) return PLAIN_BATCH;
  return {
    accepted: random.chance(0.4) ? random.chance(0.8) : null,
    cap: random.chance(0.5) ? drawCaps(random) : null,
    runCap: random.chance(0.2) ? drawCaps(random) : null,
  };
}

/** Draws a batch's pilot; most batches have none. */
export function drawPilot(random: Random): PilotSettings | null {
  if (!random.chance(0.3)) return null;
  const then = random.chance(0.5) ? 'pause' : 'continue';
  return { runs: random.int(1, 3), then, failure_rate: random.pick([0, 0.2, 1]) };
}

/** Draws caps for a step or a few: a step costs at most half a cent and a thousand tokens. */
function drawCaps(random: Random): Caps {
  return {
    cost_nanousd: random.chance(0.7) ? random.int(1, 30) * 1_000_000 : null,
    output_tokens: random.chance(0.5) ? random.int(500, 6_000) : null,
  };
}
