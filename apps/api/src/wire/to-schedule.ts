import { toUsd, toWireId } from '@nightshift/agent-core';
import type { ScheduleRow, TickRow } from '@nightshift/db';
import { describeRule, nextTicks } from '@nightshift/intake';
import type { ScheduleResponse, TickResponse } from '../schemas/schedule.ts';

const TICKS_SHOWN = 5;

/** Converts a tick to an answer. */
export function toTickResponse(tick: TickRow): TickResponse {
  const { is_manual, outcome, reason, message } = tick;
  return {
    due_at: tick.due_at.toISOString(),
    is_manual,
    outcome,
    reason,
    message,
    job_id: tick.batch_id === null ? null : toWireId('job', tick.batch_id),
    created_at: tick.created_at.toISOString(),
  };
}

/** Converts a schedule to an answer. */
export function toScheduleResponse(
  schedule: ScheduleRow,
  lastTick: TickRow | null,
  spentNanousd: number | null,
): ScheduleResponse {
  const { name, cron, time_zone, state, state_reason, overlap, catch_up_window_s, jitter_s } = schedule;
  return {
    id: toWireId('schedule', schedule.id),
    name,
    cron,
    time_zone,
    description: describeRule(schedule),
    state,
    state_reason,
    next_ticks: shownTicks(schedule),
    last_tick: lastTick === null ? null : toTickResponse(lastTick),
    body: toWireBody(schedule.body),
    overlap,
    catch_up_window_s,
    jitter_s,
    ends_at: schedule.ends_at?.toISOString() ?? null,
    max_cost_usd_per_month: toUsd(schedule.max_cost_nanousd_per_month),
    spent_usd_this_month: toUsd(spentNanousd),
    failures_max: schedule.failures_max,
    revision: schedule.revision,
    created_at: schedule.created_at.toISOString(),
    updated_at: schedule.updated_at.toISOString(),
  };
}

function shownTicks(schedule: ScheduleRow): string[] {
  const { tick_due_at: first, ends_at } = schedule;
  if (first === null) return [];
  return [first, ...nextTicks(schedule, first, TICKS_SHOWN - 1)]
    .filter((tick) => ends_at === null || tick <= ends_at)
    .map((tick) => tick.toISOString());
}

type Fields = Record<string, unknown>;

/** Restores the ids on the wire of a stored batch body: those of its agents. */
function toWireBody(body: unknown): Fields {
  const { requests, template, agents, ...rest } = body as Fields;
  return {
    ...rest,
    ...(Array.isArray(requests) ? { requests: requests.map((request: Fields) => withAgentId(request)) } : {}),
    ...(isFields(template) ? { template: withAgentId(template) } : {}),
    ...(isFields(agents) ? { agents: withAgentIds(agents) } : {}),
  };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

function withAgentId({ agent_id, ...rest }: Fields): Fields {
  return { agent_id: toWireId('agent', String(agent_id)), ...rest };
}

function withAgentIds({ ids, ...rest }: Fields): Fields {
  return Array.isArray(ids) ? { ids: ids.map((id) => toWireId('agent', String(id))), ...rest } : rest;
}
