/**
 * The algorithm of Letta's batch agent, step for step, in TypeScript over node-pg: the tables, the order of the calls, what
 * is awaited one by one and what is written in bulk are Letta's; its decorators, tracing, validation and sandbox are left out.
 *
 * Kinder to it than the original: row-by-row updates are pipelined in one transaction, statements are prepared, pairs are looked up 5,000 at a time
 * (the original asks for all at once and PostgreSQL gives up beyond about 9,000), tools run inline, and an answer without a
 * call, which the original cannot take, counts as a call of a terminal tool.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { description, parameters } from '../tools/look_up.ts';
import { customIdOf, itemOf, lookUp, MODEL, STEPS, SYSTEM_PROMPT, userText } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import { LETTA_TABLES } from './letta-tables.ts';
import { parseLine, textChunks } from './result-lines.ts';

const POOL_MAX = 25;
const ROWS_PER_INSERT = 1_000;
const PAIRS_PER_LOOKUP = 5_000;
const MAX_STEPS = 10;
const CONFIG = { model: MODEL, model_endpoint_type: 'anthropic', context_window: 200_000, max_tokens: 1024 };

interface Agent {
  readonly id: string;
  readonly message_ids: readonly string[];
  readonly system: string;
  readonly block_ids: readonly string[];
}

interface Item {
  readonly id: string;
  readonly agent_id: string;
  readonly step_state: { readonly step_number: number };
  readonly batch_request_result: { readonly line: string };
}

interface StoredMessage {
  readonly id: string;
  readonly agent_id: string;
  readonly role: string;
  readonly content: unknown;
  readonly batch_item_id: string | null;
}

const names = new Map<string, string>();

/** Prepared once a connection, as asyncpg prepares whatever it sends. */
function prepared(text: string, values: readonly unknown[]): pg.QueryConfig {
  let name = names.get(text);
  if (name === undefined) names.set(text, (name = `statement-${names.size}`));
  return { name, text, values: [...values] };
}

interface AgentRequest {
  readonly agent_id: string;
  readonly text: string;
}

export const prepareLettaPort: PrepareEngine = async ({ url, dir, runs, scenario }) => {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  // `pipeline`: many statements on their way in one session, as asyncpg's executemany has them.
  const pool = new pg.Pool({ connectionString: url, max: POOL_MAX, pipeline: true });
  await pool.query(LETTA_TABLES);
  await storeAgents(pool, runs);
  const numbers = new Map<string, number>();
  const loop = watchEventLoop();
  counts.statements = counts.transactions = 0;

  /** A session: one transaction, as its context manager gives. */
  async function session<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const value = await work(client);
      await client.query('commit');
      return value;
    } catch (error) {
      await client.query('rollback');
      throw error;
    } finally {
      client.release();
    }
  }

  const readAgents = (ids: readonly string[]): Promise<readonly Agent[]> =>
    session(async (client) => {
      const { rows } = await client.query<Omit<Agent, 'block_ids'>>(
        'select * from agents where id = any($1)',
        [ids],
      );
      await client.query(
        'select t.*, a.agent_id from tools t join tools_agents a on a.tool_id = t.id where a.agent_id = any($1)',
        [ids],
      );
      const blocks = await client.query<{ id: string; agent_id: string }>(
        'select b.*, a.agent_id from block b join blocks_agents a on a.block_id = b.id where a.agent_id = any($1)',
        [ids],
      );
      const byAgent = Map.groupBy(blocks.rows, (row) => row.agent_id);
      return rows.map((row) => ({ ...row, block_ids: (byAgent.get(row.id) ?? []).map((block) => block.id) }));
    });

  const createMessages = (messages: readonly StoredMessage[]): Promise<void> =>
    session(async (client) => {
      for (let at = 0; at < messages.length; at += ROWS_PER_INSERT) {
        await client.query(
          prepared(
            `insert into messages (id, agent_id, role, model, content, batch_item_id)
           select id, agent_id, role, '${MODEL}', content, batch_item_id
             from json_to_recordset($1::json) as d(id text, agent_id text, role text, content json, batch_item_id text)`,
            [JSON.stringify(messages.slice(at, at + ROWS_PER_INSERT))],
          ),
        );
      }
    });

  /** Looks the primary keys of (batch, agent) pairs up, then updates row by row. */
  const updateItems = (
    batchId: string,
    updates: readonly { readonly agent_id: string; readonly value: string }[],
    column: 'batch_request_result' | 'request_status' | 'step_status',
  ): Promise<void> =>
    session(async (client) => {
      const keys = new Map<string, string>();
      for (let at = 0; at < updates.length; at += PAIRS_PER_LOOKUP) {
        const page = updates.slice(at, at + PAIRS_PER_LOOKUP);
        const pairs = page.map((_, index) => `($${2 * index + 1}, $${2 * index + 2})`).join(',');
        const { rows } = await client.query<{ id: string; agent_id: string }>(
          `select id, llm_batch_id, agent_id from llm_batch_items where (llm_batch_id, agent_id) in (${pairs})`,
          page.flatMap((update) => [batchId, update.agent_id]),
        );
        for (const row of rows) keys.set(row.agent_id, row.id);
      }
      const more = column === 'batch_request_result' ? `, request_status = 'completed'` : '';
      const sent = updates.map((update) =>
        client.query({
          name: `update-${column}`,
          text: `update llm_batch_items set ${column} = $2${more}, updated_at = now() where id = $1`,
          values: [keys.get(update.agent_id), update.value],
        }),
      );
      await Promise.all(sent);
    });

  async function stepUntilRequest(
    requests: readonly AgentRequest[],
    jobId: string,
    stepNumbers: ReadonlyMap<string, number>,
  ): Promise<string> {
    const agents = new Map(
      (await readAgents(requests.map((request) => request.agent_id))).map((agent) => [agent.id, agent]),
    );
    const items: { id: string; agent_id: string; step_number: number }[] = [];
    const bodies: object[] = [];
    for (const request of requests) {
      const agent = agents.get(request.agent_id);
      if (agent === undefined) throw new Error(`There is no agent ${request.agent_id}.`);
      const step_number = stepNumbers.get(agent.id) ?? 0;
      const item = { id: `batch_item-${randomUUID()}`, agent_id: agent.id, step_number };
      items.push(item);
      const inContext = await session((client) =>
        client.query<StoredMessage>(
          prepared('select * from messages where id = any($1) order by sequence_id', [agent.message_ids]),
        ),
      );
      const input: StoredMessage = {
        id: `message-${randomUUID()}`,
        agent_id: agent.id,
        role: 'user',
        content: [{ type: 'text', text: request.text }],
        batch_item_id: item.id,
      };
      await createMessages([input]);
      // The memory is compiled anew and compared with the system message; here it never differs.
      const blocks = await session((client) =>
        client.query<{ value: string }>(
          prepared('select * from block where id = any($1)', [agent.block_ids]),
        ),
      );
      await session((client) =>
        client.query(
          prepared(
            'select a.* from archives a join archives_agents g on g.archive_id = a.id where g.agent_id = $1 limit 1',
            [agent.id],
          ),
        ),
      );
      const memory = blocks.rows.map((block) => block.value).join('\n');
      bodies.push({
        custom_id: customIdOf(numbers.get(agent.id) ?? 0, step_number + 1),
        params: {
          model: MODEL,
          max_tokens: 1024,
          system: `${agent.system}\n${memory}`,
          tools: [{ name: 'look_up', description, input_schema: parameters }],
          messages: [...inContext.rows.slice(1), input].map(({ role, content }) => ({ role, content })),
        },
      });
    }
    const providerId = await provider.createFrom(once(JSON.stringify({ requests: bodies })));
    const batchId = `batch_req-${randomUUID()}`;
    await session((client) =>
      client.query(
        `insert into llm_batch_job (id, status, llm_provider, create_batch_response, letta_batch_job_id) values ($1, 'running', 'anthropic', $2, $3)`,
        [batchId, JSON.stringify({ id: providerId }), jobId],
      ),
    );
    await session(async (client) => {
      for (let at = 0; at < items.length; at += ROWS_PER_INSERT) {
        await client.query(
          `insert into llm_batch_items (id, llm_batch_id, agent_id, llm_config, request_status, step_status, step_state)
           select id, $2, agent_id, $3::json, 'created', 'paused', step_state
             from json_to_recordset($1::json) as d(id text, agent_id text, step_state json)`,
          [
            JSON.stringify(
              items.slice(at, at + ROWS_PER_INSERT).map(({ id, agent_id, step_number }) => ({
                id,
                agent_id,
                step_state: { step_number, tool_rules_solver: { tool_rules: [], tool_call_history: [] } },
              })),
            ),
            batchId,
            JSON.stringify(CONFIG),
          ],
        );
      }
    });
    return batchId;
  }

  /** One look of the poller at a batch that has ended: all results into memory, then onto the items. */
  async function takeResults(batchId: string): Promise<void> {
    const batch = await session((client) =>
      client.query<{ create_batch_response: { id: string } }>('select * from llm_batch_job where id = $1', [
        batchId,
      ]),
    );
    const agentOf = new Map([...numbers].map(([id, number]) => [number, id]));
    const updates: { agent_id: string; value: string }[] = [];
    for await (const lines of textChunks(
      provider.results(batch.rows[0]?.create_batch_response.id ?? ''),
      1_000,
    )) {
      for (const line of lines) {
        const parsed = JSON.parse(line) as { custom_id: string };
        updates.push({
          agent_id: agentOf.get(itemOf(parsed.custom_id).item) ?? '',
          value: JSON.stringify({ line }),
        });
      }
    }
    await session((client) =>
      client.query(`update llm_batch_job set status = 'completed', last_polled_at = now() where id = $1`, [
        batchId,
      ]),
    );
    await updateItems(batchId, updates, 'batch_request_result');
  }

  /** Returns the next batch, or null when no agent goes on. */
  async function resumeStep(batchId: string, jobId: string): Promise<string | null> {
    const { rows: items } = await session((client) =>
      client.query<Item>(
        `select * from llm_batch_items where llm_batch_id = $1 and request_status = 'completed'`,
        [batchId],
      ),
    );
    const agents = new Map(
      (await readAgents(items.map((item) => item.agent_id))).map((agent) => [agent.id, agent]),
    );
    const answers = new Map(items.map((item) => [item.agent_id, parseLine(item.batch_request_result.line)]));
    await updateItems(
      batchId,
      items.map(({ agent_id }) => ({ agent_id, value: 'completed' })),
      'request_status',
    );
    const messagesOf = new Map<string, readonly StoredMessage[]>();
    for (const item of items) {
      const answer = answers.get(item.agent_id);
      if (answer === undefined) continue;
      const result = answer.call === null ? 'Sent message successfully.' : lookUp(answer.call.input);
      const both = { agent_id: item.agent_id, batch_item_id: item.id };
      messagesOf.set(item.agent_id, [
        {
          ...both,
          id: `message-${randomUUID()}`,
          role: 'assistant',
          content: JSON.parse(answer.content) as unknown,
        },
        {
          ...both,
          id: `message-${randomUUID()}`,
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: answer.call?.id ?? 'send_message', content: result }],
        },
      ]);
    }
    await createMessages([...messagesOf.values()].flat());
    await updateItems(
      batchId,
      items.map(({ agent_id }) => ({ agent_id, value: 'completed' })),
      'step_status',
    );
    for (const [agentId, messages] of messagesOf) {
      const agent = agents.get(agentId);
      const ids = [...(agent?.message_ids ?? []), ...messages.map((message) => message.id)];
      await session(async (client) => {
        await client.query(prepared('select * from agents where id = $1', [agentId]));
        await client.query(
          prepared('update agents set message_ids = $2, updated_at = now() where id = $1', [
            agentId,
            JSON.stringify(ids),
          ]),
        );
      });
    }
    const next = items.filter(
      (item) => answers.get(item.agent_id)?.call != null && item.step_state.step_number < MAX_STEPS,
    );
    if (next.length === 0) {
      await session((client) =>
        client.query(`update jobs set status = 'completed', completed_at = now() where id = $1`, [jobId]),
      );
      return null;
    }
    const heartbeat = '{"type":"heartbeat","reason":"Function called, returning control"}';
    return stepUntilRequest(
      next.map(({ agent_id }) => ({ agent_id, text: heartbeat })),
      jobId,
      new Map(next.map((item) => [item.agent_id, item.step_state.step_number + 1])),
    );
  }

  return {
    // Its route writes one row before the first step.
    accept: () =>
      session(async (client) => {
        await client.query(`insert into jobs (id, status) values ('job-1', 'running')`);
      }),
    async run() {
      const { rows } = await pool.query<{ id: string; number: number }>(
        'select id, number from agents order by number',
      );
      for (const row of rows) numbers.set(row.id, row.number);
      const requests = rows.map((row) => ({ agent_id: row.id, text: userText(row.number) }));
      let batchId: string | null = await stepUntilRequest(requests, 'job-1', new Map());
      while (batchId !== null) {
        await takeResults(batchId);
        batchId = await resumeStep(batchId, 'job-1');
      }
    },
    figures: () => ({
      provider_cpu_ms: provider.counts.cpu_ms,
      provider_calls: provider.counts.calls,
      body_bytes: provider.counts.body_bytes,
      counts,
      loop: loop(),
    }),
    async count() {
      const { rows } = await pool.query<{ done: number; steps: number; messages: number }>(`
        select (select count(*)::int from agents where json_array_length(message_ids) = ${1 + 2 * STEPS}) as done,
               (select count(*)::int from llm_batch_items where step_status = 'completed') as steps,
               (select count(*)::int from messages) as messages`);
      const [found = { done: 0, steps: 0, messages: 0 }] = rows;
      // The system message, and a step's input, call and return.
      const wanted = runs * (1 + 3 * STEPS);
      if (found.messages !== wanted) throw new Error(`messages: ${found.messages} rows instead of ${wanted}`);
      return { ...found, messages: null };
    },
    close: () => pool.end(),
  };
};

async function* once(text: string): AsyncGenerator<string, void, undefined> {
  yield text;
}

async function storeAgents(pool: pg.Pool, runs: number): Promise<void> {
  await pool.query(`insert into tools (id, name, json_schema) values ('tool-1', 'look_up', $1)`, [
    JSON.stringify(parameters),
  ]);
  for (let from = 0; from < runs; from += ROWS_PER_INSERT) {
    const rows = Array.from({ length: Math.min(ROWS_PER_INSERT, runs - from) }, (_, index) => ({
      id: `agent-${randomUUID()}`,
      message: `message-${randomUUID()}`,
      number: from + index,
    }));
    await pool.query(
      `with r as materialized (select * from json_to_recordset($1::json) as d(id text, message text, number int)),
       a as (insert into agents (id, number, name, system, message_ids, llm_config)
             select id, number, 'customer ' || number, $2, json_build_array(message), $3::json from r),
       t as (insert into tools_agents (agent_id, tool_id) select id, 'tool-1' from r)
       insert into messages (id, agent_id, role, content)
       select message, id, 'system', json_build_array(json_build_object('type', 'text', 'text', $2::text)) from r`,
      [JSON.stringify(rows), SYSTEM_PROMPT, JSON.stringify(CONFIG)],
    );
  }
}
