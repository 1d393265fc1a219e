import { isError } from '@nightshift/agent-core';
import type { CursorReading, FleetAgent, NewCursorSpan, NewRun } from '@nightshift/db';
import type { FleetRequest } from '../request.ts';
import { toCap, toMessages, toNewRun, toToolChoice } from '../to-runs.ts';
import { fillFleetInput, type FleetInput } from './fleet-input.ts';

/** The runs of an agent in a fleet, or why it has none. */
export type AgentPlan =
  | {
      readonly runs: readonly { readonly run: NewRun; readonly span: Span | null }[];
      /** Labels of blocks to create before the runs. */
      readonly create: readonly string[];
    }
  | { readonly skip: SkipReason };

/** The messages that a run under a cursor is given. */
export type Span = Omit<NewCursorSpan, 'run_id' | 'agent_id'>;

/** Why an agent of a fleet has no run. */
export type SkipReason =
  | 'agent_deleted'
  | 'missing_block'
  | 'read_only_block'
  | 'unusable_input'
  | 'unusable_tools'
  | 'no_price'
  | 'too_few_new'
  | 'nothing_new'
  | 'under_way'
  | 'in_review'
  | 'failing';

/** A fleet's run without its agent and its input. */
export type FleetRun = Omit<NewRun, 'agent_id' | 'messages'>;

/** Plans the run of an agent with its filled input. The template may run for ever, so callers need a timeout. */
export function planAgent(
  shared: FleetRun,
  input: FleetInput,
  agent: FleetAgent,
  reading: CursorReading | null,
  tickDueAt: Date | null,
): AgentPlan {
  const labels = new Set(agent.blocks.map(({ label }) => label));
  if (input.labels?.some((label) => !labels.has(label)) === true) return { skip: 'missing_block' };
  let text = '';
  try {
    text = fillFleetInput(input, agent, reading?.messages ?? null, tickDueAt);
  } catch (error) {
    if (!isError(error, 'validation_failed')) throw error;
  }
  if (text.trim() === '') return { skip: 'unusable_input' };
  const run = { ...shared, agent_id: agent.id, messages: toMessages({ input: text }) };
  const span =
    reading === null
      ? null
      : { from_seq: reading.position, to_seq: reading.to_seq, top_seq: reading.top_seq };
  return { runs: [{ run, span }], create: [] };
}

/** Returns the part of a fleet's runs that all agents share, so that their definitions are serialized once. */
export function sharedRun(source: FleetRequest): FleetRun {
  const { max_steps, client_tools, response_format, conversation, model } = source;
  const options = { max_steps, client_tools, response_format, conversation: conversation ?? 'isolated' };
  const run = toNewRun({ agent_id: '', ...options }, toToolChoice(source));
  return { ...run, cap: runCapOf(source), ...(model == null ? {} : { model }) };
}

/** The caps of each run of a fleet. */
export function runCapOf(
  source: Pick<FleetRequest, 'max_cost_usd_per_run' | 'max_output_tokens_per_run'>,
): NonNullable<NewRun['cap']> {
  return toCap({
    max_cost_usd: source.max_cost_usd_per_run,
    max_output_tokens: source.max_output_tokens_per_run,
  });
}
