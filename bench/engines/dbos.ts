import { DBOS } from '@dbos-inc/dbos-sdk';
import pg from 'pg';
import { watchEventLoop } from '../measure/event-loop.ts';
import { countStatements } from '../measure/statements.ts';
import { openProvider } from '../provider.ts';
import { customIdOf, lookUp, STEPS } from '../workload.ts';
import type { PrepareEngine } from './engine.ts';
import { parseLine } from './result-lines.ts';

const IN_FLIGHT = 100;
const POOL_MAX = 20;

/**
 * One DBOS workflow a run: every answer and every tool result is the output of a durable step, and these checkpoints are
 * all that is stored. The result of a step is there when it is asked for: no durable wait is counted against it.
 */
export const prepareDbos: PrepareEngine = async ({ url, dir, runs, scenario }) => {
  const counts = { statements: 0, transactions: 0 };
  countStatements(pg, counts);
  const provider = openProvider({ dir, scenario });
  const takeRun = DBOS.registerWorkflow(
    async (item: number): Promise<string> => {
      let last = '';
      for (let step = 1; step <= STEPS; step++) {
        const answer = await DBOS.runStep(
          async () => {
            const line = parseLine(provider.lineOf(customIdOf(item, step)));
            return {
              content: line.content,
              stop_reason: line.stop_reason,
              input_tokens: line.input_tokens,
              call: line.call,
            };
          },
          { name: 'answer' },
        );
        last = answer.stop_reason;
        const { call } = answer;
        if (call === null) break;
        await DBOS.runStep(async () => lookUp(call.input), { name: 'tool' });
      }
      return last;
    },
    { name: 'takeRun' },
  );
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: url,
    systemDatabasePoolSize: POOL_MAX,
    logLevel: 'error',
  });
  await DBOS.launch();
  const loop = watchEventLoop();
  counts.statements = counts.transactions = 0;
  return {
    // A workflow's row is its run; there is nothing to take in before it starts.
    accept: () => Promise.resolve(),
    async run() {
      let next = 0;
      const lane = async (): Promise<void> => {
        while (next < runs) {
          const item = next++;
          const handle = await DBOS.startWorkflow(takeRun, { workflowID: `run-${item}` })(item);
          await handle.getResult();
        }
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
    },
    figures: () => ({
      provider_cpu_ms: provider.counts.cpu_ms,
      provider_calls: provider.counts.calls,
      body_bytes: provider.counts.body_bytes,
      counts,
      loop: loop(),
    }),
    async count() {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const { rows } = await client.query<{ done: number; steps: number; tools: number }>(`
        select (select count(*)::int from dbos.workflow_status where status = 'SUCCESS') as done,
               (select count(*)::int from dbos.operation_outputs where function_name = 'answer') as steps,
               (select count(*)::int from dbos.operation_outputs where function_name = 'tool') as tools`);
      await client.end();
      const [found = { done: 0, steps: 0, tools: 0 }] = rows;
      if (found.tools !== runs * (STEPS - 1))
        throw new Error(`${found.tools} tool results instead of ${runs * (STEPS - 1)}`);
      return { done: found.done, steps: found.steps, messages: null };
    },
    close: () => DBOS.shutdown(),
  };
};
