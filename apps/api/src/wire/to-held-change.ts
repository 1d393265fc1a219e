import { toWireId, type RunState } from '@nightshift/agent-core';
import type { HeldChangeRow, HeldSummary } from '@nightshift/db';
import type { HeldChangeResponse, HeldSummaryResponse } from '../schemas/held-change.ts';
import { toChange } from './to-memory-change.ts';

/** Converts a held change to an answer, without its texts. */
export function toHeldChange(row: HeldChangeRow): HeldChangeResponse {
  const { label, base_revision, value_before } = row;
  const to_revision = (base_revision ?? 0) + 1;
  const after = isGivenUp(row) ? (value_before ?? row.value) : row.value;
  return {
    id: toWireId('block', row.draft_id),
    state: row.state,
    kind: row.kind,
    agent_id: toWireId('agent', row.agent_id),
    agent_name: row.agent_name,
    block_id: row.block_id === null ? null : toWireId('block', row.block_id),
    label_before: row.label_before,
    description: row.description,
    description_before: row.description_before,
    ...toChange({ label, from_revision: base_revision, to_revision, before: value_before ?? '', after }),
    run_id: toWireId('run', row.run_id),
    custom_id: row.custom_id,
    run_state: row.run_state,
    stop_reason: row.stop_reason,
    created_at: row.created_at.toISOString(),
    settled_at: row.settled_at?.toISOString() ?? null,
    edited_at: row.edited_at?.toISOString() ?? null,
    change_group: row.change_group,
    stale: row.stale_reason !== null,
    stale_because: toStaleness(row),
    values: null,
  };
}

/** Converts a held change to an answer with its three texts. */
export function toHeldChangeWithValues(row: HeldChangeRow): HeldChangeResponse {
  const proposed = isGivenUp(row) ? null : row.value;
  return { ...toHeldChange(row), values: { worked_from: row.value_before, proposed, now: row.value_now } };
}

function isGivenUp({ kind }: HeldChangeRow): boolean {
  return kind === 'detached' || kind === 'dropped';
}

function toStaleness(row: HeldChangeRow): HeldChangeResponse['stale_because'] {
  const { stale_reason, head_revision, head_batch_id, head_run_id, head_created_at } = row;
  if (stale_reason === null || head_revision === null || head_created_at === null) return null;
  return {
    reason: stale_reason,
    revision: head_revision,
    written_by: head_run_id === null ? 'api' : 'run',
    job_id: head_batch_id === null ? null : toWireId('job', head_batch_id),
    run_id: head_run_id === null ? null : toWireId('run', head_run_id),
    written_at: head_created_at.toISOString(),
  };
}

/** Converts counts of held changes to an answer. */
export function toHeldSummary({ total, counts, groups_total, groups }: HeldSummary): HeldSummaryResponse {
  const countOf = (of: string, value: string): number =>
    counts.find((count) => count.of === of && count.value === value)?.changes ?? 0;
  const all = (of: string) => counts.filter((count) => count.of === of);
  return {
    total,
    states: {
      held: countOf('state', 'held'),
      accepted: countOf('state', 'accepted'),
      rejected: countOf('state', 'rejected'),
    },
    shrunk: countOf('shrunk', 'true'),
    stale: countOf('stale', 'true'),
    run_states: Object.fromEntries(
      all('run_state').map(({ value, changes }) => [value as RunState, changes] as const),
    ),
    labels: all('label').map(({ value, changes }) => ({ label: value, changes })),
    groups_total,
    groups: groups.map(({ first_draft_id, ...group }) => ({
      ...group,
      sample_id: toWireId('block', first_draft_id),
    })),
  };
}
