import {
  describeChange,
  stepUuid,
  toWireId,
  type ComparedRevisions,
  type CreatePatch,
  type MemoryChange,
} from '@nightshift/agent-core';
import type { BlockRevisionRow, MemoryChangeRow, RevisionKey } from '@nightshift/db';
import { createTwoFilesPatch } from 'diff';
import type { BlockRevision, MemoryChangeResponse } from '../schemas/memory.ts';

const createPatch: CreatePatch = createTwoFilesPatch;

/** Returns the change between two revisions of a block, as a unified diff with its sizes. */
export function toChange(change: ComparedRevisions): MemoryChange {
  return describeChange(change, createPatch);
}

type WrittenBy = Pick<
  BlockRevision,
  'resolution' | 'job_id' | 'run_id' | 'agent_id' | 'step_id' | 'tool_call_id' | 'created_at'
>;

function toWriter(row: Omit<BlockRevisionRow, 'value'>): WrittenBy {
  const { run_id, step_number: number, attempt } = row;
  const wire = (prefix: 'job' | 'run' | 'agent', id: string | null): string | null =>
    id === null ? null : toWireId(prefix, id);
  return {
    resolution: row.resolution,
    job_id: wire('job', row.batch_id),
    run_id: wire('run', run_id),
    agent_id: wire('agent', row.agent_id),
    step_id:
      run_id === null || number === null || attempt === null
        ? null
        : toWireId('step', stepUuid({ run_id, number, attempt })),
    tool_call_id: row.tool_use_id,
    created_at: row.created_at.toISOString(),
  };
}

/** Converts a revision to an answer. */
export function toBlockRevision(row: Omit<BlockRevisionRow, 'value'>): BlockRevision {
  return {
    block_id: toWireId('block', row.block_id),
    revision: row.revision,
    description: row.description,
    limit: row.char_limit,
    read_only: row.read_only,
    based_on: row.based_on,
    ...toWriter(row),
  };
}

/** Converts a write of a batch to an answer. */
export function toMemoryChange(row: MemoryChangeRow): MemoryChangeResponse {
  const block_id = toWireId('block', row.block_id);
  const change = toChange({
    label: row.label,
    from_revision: row.value_before === null ? null : row.revision - 1,
    to_revision: row.revision,
    before: row.value_before ?? '',
    after: row.value,
  });
  return { id: `${block_id}@${row.revision}`, block_id, ...change, ...toWriter(row) };
}

/** Returns the revision named by the id of a {@link MemoryChangeResponse}. */
export function toRevisionKey(id: string): RevisionKey {
  const [blockId = '', revision = ''] = id.split('@');
  return { block_id: blockId.slice('block-'.length), revision: Number(revision) };
}
