import type { Cap } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Database } from '../../connect.ts';
import { imageBytesIn, imagesIn } from '../media.ts';
import { uuidArray } from '../../uuid-array.ts';

/** A stored run of a sample, for an estimate. */
export interface StoredRun {
  readonly agent_id: string;
  readonly definition_id: string;
  readonly conversation_id: string;
  readonly max_steps: number;
  readonly cap: Cap;
  /** Bytes of input that waits outside the conversation. */
  readonly queued_bytes: number;
  /** Images in it, and the bytes of inline images. */
  readonly queued_images: number;
  readonly queued_image_bytes: number;
}

/** A sample of the runs of a batch. */
export interface StoredSample {
  /** Stored runs of the batch. */
  readonly runs: number;
  /** Whether a run of the sample has a step. */
  readonly has_started: boolean;
  readonly sample: readonly StoredRun[];
}

/** Reads up to `count` runs of a batch, evenly spread. Index: (batch, ordinal), primary keys. */
export async function readStoredRuns(db: Database, batchId: string, count: number): Promise<StoredSample> {
  const { rows } = await sql<
    Omit<StoredRun, 'cap'> & {
      readonly runs: number;
      readonly has_step: boolean;
      readonly cap_nanousd: number | null;
      readonly cap_tokens: number | null;
    }
  >`
    select b.accepted as runs, r.agent_id, r.definition_id, r.conversation_id, r.max_steps,
           exists (select 1 from step s where s.run_id = r.id) as has_step,
           r.max_cost_nanousd as cap_nanousd, r.max_output_tokens as cap_tokens,
           coalesce(octet_length(q.messages::text), 0) as queued_bytes,
           coalesce(${imagesIn(sql.ref('q.messages'))}, 0) as queued_images,
           coalesce(${imageBytesIn(sql.ref('q.messages'))}, 0) as queued_image_bytes
      from batch b
     cross join lateral generate_series(0, least(b.accepted, ${count}::int) - 1) as place
      join run r on r.batch_id = b.id and r.ordinal = (place::bigint * b.accepted / least(b.accepted, ${count}::int))::int
      left join queued_input q on q.run_id = r.id
     where b.id = ${batchId}::uuid
  `.execute(db);
  return {
    runs: rows[0]?.runs ?? 0,
    has_started: rows.some(({ has_step }) => has_step),
    sample: rows.map(({ runs: _runs, has_step: _hasStep, cap_nanousd, cap_tokens, ...run }) => ({
      ...run,
      cap: { cost_nanousd: cap_nanousd, output_tokens: cap_tokens },
    })),
  };
}

/** Reads running batches without an estimate, oldest first. Index: `batch_unestimated`. */
export async function readUnestimatedBatches(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('batch')
    .select('id')
    .where('is_estimated', '=', false)
    .where('state', '=', 'running')
    .orderBy('created_at')
    .limit(limit)
    .execute();
  return rows.map((row) => row.id);
}

/** A block of an agent without its text. */
export interface SizedBlock {
  readonly agent_id: string;
  readonly block_id: string;
  readonly revision: number;
  readonly label: string;
  readonly description: string | null;
  readonly char_limit: number;
  readonly read_only: boolean;
  /** Bytes of its text. */
  readonly bytes: number;
}

/** Reads the blocks of agents with the sizes of their texts, by their place. Index: primary keys. */
export async function readBlockSizes(
  db: Database,
  agentIds: readonly string[],
): Promise<readonly SizedBlock[]> {
  const { rows } = await sql<SizedBlock>`
    select ab.agent_id, b.id as block_id, r.revision, ab.label, r.description, r.char_limit, r.read_only,
           octet_length(r.value) as bytes
      from agent_block ab
      join block b on b.id = ab.block_id
      join block_revision r on r.block_id = b.id and r.revision = b.head_revision
     where ab.agent_id = any(${uuidArray(agentIds)}::uuid[])
     order by ab.agent_id, ab.position
  `.execute(db);
  return rows;
}
