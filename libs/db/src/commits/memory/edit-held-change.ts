import { NightshiftError, toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { lockAgentToSettle } from '../../locks/batch/lock-ended-batch.ts';

/** The new text of a held change. */
export interface HeldEdit {
  readonly value: string;
  /** The text that the caller edited; null: whatever it is. */
  readonly expected: string | null;
  /** Throws if a text does not fit a block of this limit. Unit: characters. */
  readonly assertFits: (value: string, charLimit: number) => void;
}

interface EditedRow {
  readonly agent_id: string;
  readonly kind: 'revised' | 'created' | 'detached' | 'dropped';
  readonly state: 'held' | 'accepted' | 'rejected';
  readonly settled_at: Date | null;
  readonly value: string;
  /** Of the block as it is now; of the draft, for a new block. */
  readonly char_limit: number;
  readonly read_only: boolean;
}

/**
 * Edits the text of a held change as the next revision of its draft, which names the same call and says `edited`, so that an
 * accept, a revert and the audit treat it like the call's own. The same text again changes nothing, whatever was expected:
 * a request whose answer was lost comes twice.
 * Throws: `not_found` for the batch or the change; `batch_running` while runs of the agent may still write; `conflict` for a
 * settled change, a text other than the expected, and a block that is read-only now; `validation_failed` for a change
 * without a text.
 * Locks: the batch. Index: `held_change_by_draft`, primary keys.
 */
export async function editHeldChange(
  trx: Tx,
  projectId: string,
  batchId: string,
  draftId: string,
  { value, expected, assertFits }: HeldEdit,
): Promise<void> {
  const change = await readEdited(trx, batchId, draftId);
  await lockAgentToSettle(trx, projectId, batchId, change?.agent_id ?? null);
  // Read anew: it may have been settled or edited during the wait for the lock.
  const present = await readEdited(trx, batchId, draftId);
  if (present === undefined)
    throw new NightshiftError('not_found', `job-${batchId} has held no change block-${draftId}.`);
  assertEditable(draftId, present);
  const text = toStorableText(value);
  if (text === present.value) return;
  if (expected !== null && toStorableText(expected) !== present.value)
    throw new NightshiftError('conflict', `${nameOf(draftId)} has been edited meanwhile. Read it again.`);
  assertFits(text, present.char_limit);
  await sql`
    with h as (
      update held_change set edited_at = app_now()
       where batch_id = ${batchId} and draft_id = ${draftId}::uuid and state = 'held' returning *),
    moved as (
      update block d set head_revision = d.head_revision + 1, updated_at = app_now() from h where d.id = h.draft_id
      returning d.id, d.head_revision)
    insert into block_revision (block_id, revision, project_id, description, value, char_limit, read_only, based_on, batch_id,
                                run_id, step_number, tool_use_id, resolution)
    select n.block_id, m.head_revision, n.project_id, n.description, ${text}, n.char_limit, n.read_only, n.revision, h.batch_id,
           coalesce(n.run_id, h.run_id), case when n.run_id is null then h.step_number else n.step_number end,
           case when n.run_id is null then h.tool_use_id else n.tool_use_id end, 'edited'
      from h join moved m on m.id = h.draft_id
      join block_revision n on n.block_id = m.id and n.revision = m.head_revision - 1
  `.execute(trx);
}

async function readEdited(trx: Tx, batchId: string, draftId: string): Promise<EditedRow | undefined> {
  const { rows } = await sql<EditedRow>`
    select h.agent_id, h.kind, h.state, h.settled_at, n.value, coalesce(c.char_limit, n.char_limit) as char_limit,
           coalesce(c.read_only, false) as read_only
      from held_change h
      join block d on d.id = h.draft_id
      join block_revision n on n.block_id = d.id and n.revision = d.head_revision
      left join block b on b.id = h.block_id and h.base_revision is not null
      left join block_revision c on c.block_id = b.id and c.revision = b.head_revision
     where h.batch_id = ${batchId} and h.draft_id = ${draftId}::uuid
  `.execute(trx);
  return rows[0];
}

function nameOf(draftId: string): string {
  return `The change block-${draftId}`;
}

function assertEditable(draftId: string, change: EditedRow): void {
  const name = nameOf(draftId);
  if (change.state !== 'held')
    throw new NightshiftError(
      'conflict',
      `${name} was ${change.state} at ${change.settled_at?.toISOString() ?? ''}. ` +
        (change.state === 'accepted' ? 'Edit its block instead.' : 'A rejected change is gone.'),
    );
  if (change.kind === 'detached' || change.kind === 'dropped') {
    const message = `the change ${change.kind === 'detached' ? 'detaches' : 'drops'} the block and has no text to edit`;
    throw new NightshiftError('validation_failed', `/value: ${message}. Accept or reject it.`, {
      fields: [{ path: '/value', message }],
    });
  }
  if (change.read_only)
    throw new NightshiftError(
      'conflict',
      `${name} cannot take effect: its block is read-only now. Make the block writable, or reject the change.`,
    );
}
