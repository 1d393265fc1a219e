import { createAgent, type TestApi } from './api.ts';

/** A change to hold, with the end of its run. */
export interface ChangeToHold {
  readonly before: string;
  readonly after: string;
  /** Default: `notes`. */
  readonly label?: string;
  /** Default: `agent`. */
  readonly agent_name?: string;
  readonly limit?: number;
  /** Default: `revised`. */
  readonly kind?: 'revised' | 'detached';
  /** Default: a completed run. */
  readonly failed?: 'failed' | 'cancelled' | 'expired';
}

/** A change that a batch holds. */
export interface HeldByReview {
  readonly id: string;
  readonly agent_id: string;
  readonly block_id: string;
}

/** An ended batch under review. */
export interface Review {
  readonly job_id: string;
  readonly url: string;
  /** In the order of the changes to hold. */
  readonly held: readonly HeldByReview[];
}

/** Creates a batch under review that holds these changes, each of an agent of its own. Its runs have ended, unless `open`. */
export async function createReview(
  api: TestApi,
  changes: readonly ChangeToHold[],
  { open = false }: { readonly open?: boolean } = {},
): Promise<Review> {
  const agents: { agent_id: string; block_id: string }[] = [];
  for (const { before, label = 'notes', agent_name = 'agent', limit } of changes) {
    const block = { label, value: before, ...(limit === undefined ? {} : { limit }) };
    const agent_id = await createAgent(api, { name: agent_name, memory_blocks: [block] });
    const { body } = await api.call('GET', `/v1/agents/${agent_id}`);
    agents.push({ agent_id, block_id: body.memory.blocks[0].id });
  }
  const requests = agents.map(({ agent_id }) => ({ agent_id, input: 'go' }));
  const { body: batch } = await api.call('POST', '/v1/batches', { requests, apply: 'review' });
  const job: string = batch.id.slice(4);
  const rows = changes.map(({ before, after, label = 'notes', kind = 'revised' }, n) => ({
    ...{ n, before, after, label, kind },
    block: agents[n]?.block_id.slice(6),
  }));
  const { rows: drafts } = await api.database.pool.query<{ draft_id: string }>(
    `with x as (select r.*, c.n, c.before, c.after, c.label, c.kind, c.block, gen_random_uuid() as draft_id
                  from json_to_recordset($2::json) as c(n int, before text, after text, label text, kind text, block uuid)
                  join run r on r.batch_id = $1 and r.ordinal = c.n),
     d as (insert into block (id, project_id, label, head_revision, deleted_at, held_by_batch_id)
           select draft_id, project_id, label, 2, app_now(), batch_id from x),
     w as (insert into block_revision (block_id, revision, project_id, value, char_limit, read_only, based_on, batch_id, run_id,
                                       step_number, tool_use_id, resolution)
           select draft_id, 1, project_id, before, 100000, false, null::int, null::uuid, null::uuid, null::int, null, null from x
           union all
           select draft_id, 2, project_id, after, 100000, false, 1, batch_id, id, 1, 'toolu_1', 'clean' from x),
     h as (insert into held_change (batch_id, agent_id, block_id, project_id, draft_id, kind, base_revision, base_label, run_id,
                                    step_number, tool_use_id)
           select batch_id, agent_id, block, project_id, draft_id, kind, 1, label, id, 1, 'toolu_1' from x)
     select draft_id from x order by n`,
    [job, JSON.stringify(rows)],
  );
  if (!open) await endRuns(api, job, changes);
  const held = drafts.map(({ draft_id }, n) => ({ id: `block-${draft_id}`, ...agents[n]! }));
  return { job_id: batch.id, url: `/v1/batches/${batch.id}/held-changes`, held };
}

async function endRuns(api: TestApi, job: string, changes: readonly ChangeToHold[]): Promise<void> {
  const ends = changes.map(({ failed }, n) => ({
    n,
    state: failed ?? 'completed',
    reason: failed === undefined ? 'end_turn' : failed === 'failed' ? 'budget_exceeded' : failed,
    error: failed === 'failed' ? { code: 'x' } : null,
  }));
  await api.database.pool.query(
    `update run set state = d.state, stop_reason = d.reason, ended_at = app_now(), started_at = app_now(), first_seq = 1,
                    last_seq = 1, error = d.error
       from json_to_recordset($2::json) as d(n int, state text, reason text, error json)
      where batch_id = $1 and ordinal = d.n`,
    [job, JSON.stringify(ends)],
  );
  await api.database.pool.query(
    `update batch set state = 'completed', completed_at = app_now() where id = $1`,
    [job],
  );
}
