import type { Batch, Run, Step } from '@nightshift/client';
import { endedOf } from '../ended.ts';
import { CommandError } from '../failure.ts';
import { renderFields, type Field } from '../fields.ts';
import type { Define, Session } from '../session.ts';
import { countOf, dollarsOf } from '../words.ts';
import { renderAgent } from './agents/read.ts';
import { renderSchedule } from './schedules/read.ts';
import { renderTool } from './tools.ts';

/** Shows a batch, a run, a step, an agent, a schedule, a block or a tool. */
export const define: Define = (command, run) => {
  command
    .argument('<id>', 'id of a batch, a run, a step, an agent, a schedule, a block or a tool')
    .action(run(show));
};

type Retrieve = (client: Session['client'], id: string) => Promise<Shown>;
type Shown = readonly [value: object, text: () => string];

const RETRIEVES: Readonly<Record<string, Retrieve>> = {
  job: (client, id) => withText(client.batches.retrieve(id), (batch) => renderFields(fieldsOfBatch(batch))),
  run: (client, id) => withText(client.runs.retrieve(id), (run) => renderFields(fieldsOfRun(run))),
  step: (client, id) => withText(client.runs.step(id), (step) => renderFields(fieldsOfStep(step))),
  agent: (client, id) => withText(client.agents.retrieve(id), renderAgent),
  schedule: (client, id) => withText(client.schedules.retrieve(id), renderSchedule),
  block: (client, id) => withText(client.memory.retrieve(id), (block) => renderFields(Object.entries(block))),
  tool: (client, id) => withText(client.tools.retrieve(id), renderTool),
};

async function show({ client, out }: Session, _flags: object, id: string): Promise<undefined> {
  const retrieve = RETRIEVES[id.split('-', 1)[0] ?? ''];
  if (retrieve === undefined)
    throw new CommandError(
      `${id} is no id. Give one such as job-…, run-…, step-…, agent-…, schedule-…, block-… or tool-…; nightshift ls lists batches.`,
    );
  await out.record(...(await retrieve(client, id)));
}

async function withText<Value extends object>(
  answer: Promise<Value>,
  render: (value: Value) => string,
): Promise<Shown> {
  const value = await answer;
  return [value, () => render(value)];
}

function fieldsOfBatch(batch: Batch): readonly Field[] {
  const { counts, progress, usage } = batch;
  const open = (['queued', 'in_progress', 'retrying', 'requires_action'] as const)
    .filter((name) => counts[name] > 0)
    .map((name) => `${countOf(counts[name])} ${name.replace('_', ' ')}`);
  const ended = (['completed', 'failed', 'expired', 'cancelled'] as const).map(
    (name) => `${countOf(counts[name])} ${name}`,
  );
  return [
    ['id', batch.id],
    ['name', batch.name],
    ['tags', batch.tags],
    ['state', batch.state_reason === null ? batch.state : `${batch.state}: ${batch.state_reason}`],
    ['waits for', progress?.waiting_reason?.message],
    ['ended', `${countOf(endedOf(batch))} of ${countOf(counts.total)}: ${ended.join(', ')}`],
    ['open', open.join(', ')],
    ...Object.entries(counts.skipped).map(
      ([reason, count]) => ['skipped', `${countOf(count)} ${reason}`] as const,
    ),
    ['steps', usage.steps],
    [
      'tokens',
      `${countOf(usage.input_tokens)} in, ${countOf(usage.cache_read_tokens)} from the cache, ${countOf(usage.output_tokens)} out`,
    ],
    ['cost', dollarsOf(usage.cost_usd)],
    ['cap', batch.limits.max_cost_usd === null ? null : dollarsOf(batch.limits.max_cost_usd)],
    ['retry of', batch.retry_of],
    ['schedule', batch.schedule_id],
    ['created', batch.created_at],
    ['completed', batch.completed_at],
  ];
}

function fieldsOfRun(run: Run): readonly Field[] {
  return [
    ['id', run.id],
    ['batch', run.batch_id],
    ['agent', run.agent_id],
    ['custom id', run.custom_id],
    ['state', run.ended_reason === null ? run.state : `${run.state}: ${run.ended_reason}`],
    ['error', run.error?.message ?? run.last_error?.message],
    ['waits for', run.waits_for],
    ['result', run.result],
    ['steps', `${run.usage.steps} of at most ${run.limits.max_steps}`],
    ['attempts', run.attempts],
    ['next attempt', run.next_attempt_at],
    ['cost', dollarsOf(run.usage.cost_usd)],
    ['created', run.created_at],
    ['completed', run.completed_at],
  ];
}

function fieldsOfStep(step: Step): readonly Field[] {
  return [
    ['id', step.id],
    ['run', step.run_id],
    ['number', step.number],
    ['attempt', step.attempt],
    ['state', step.state],
    ['model', step.model_handle],
    ['error', step.error_data?.message],
    ['tokens', `${countOf(step.prompt_tokens)} in, ${countOf(step.completion_tokens)} out`],
    ['cost', dollarsOf(step.cost_usd)],
    ['created', step.created_at],
    ['completed', step.completed_at],
  ];
}
