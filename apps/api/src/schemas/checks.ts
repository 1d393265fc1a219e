import { z } from 'zod';
import { shownId } from './ids.ts';
import { moment } from './moment.ts';
import { secretKeyId } from './secret.ts';

const status = z
  .enum(['ok', 'warning', 'failing'])
  .describe('`failing` needs an act now; `warning` will, or costs time or money.');

/** Makes the schema of a check: the same fields, and typed details. */
function check<Name extends string, Details extends z.ZodRawShape>(name: Name, details: Details) {
  return z.object({
    name: z.literal(name),
    status,
    finding: z.string().describe('What is so, in a sentence.'),
    advice: z.string().nullable().describe('What to do next; null if nothing.'),
    details: z.object(details).nullable().describe('Null if the check itself failed.'),
  });
}

const time = z.iso.datetime();
const usd = z.string().describe('US dollars.');

const worker = z.object({
  name: z.string(),
  host: z.string(),
  pid: z.int(),
  version: z.string(),
  started_at: time,
  heartbeat_at: time,
  is_alive: z.boolean().describe('Its last heartbeat is less than a minute old.'),
  tools: z.int().describe('Number of its module tools.'),
});

const upcoming = z.object({
  schedule_id: shownId('schedule'),
  name: z.string(),
  next_tick: time,
  ticks: z.int().describe('Ticks up to `until`, at most 100.'),
  agents: z.int().nullable().describe('Agents, or requests, of a tick now; null if the count took too long.'),
  open_batch: z.boolean().describe('Its last batch has not ended.'),
  max_cost_usd: usd.nullable().describe('Cap of each batch; null: none.'),
  left_usd: usd
    .nullable()
    .describe("What is left of the month's cap, open batches at their caps; null: no cap."),
  last_costs_usd: z.array(usd).describe('Costs of the last ended batches, the latest first.'),
  problems: z.array(z.string()).describe('What the next tick will meet.'),
});

/** Every check, in the order of the answer. */
export const checkSchema = z
  .discriminatedUnion('name', [
    check('database', {
      version: z.int().describe('Major version of PostgreSQL.'),
      role: z.string(),
      is_superuser: z.boolean(),
      takes_writes: z.boolean(),
      size_bytes: z.int(),
    }),
    check('migrations', {
      applied: z.int(),
      missing: z.array(z.string()),
      unknown: z.array(z.string()).describe('Applied by another release.'),
    }),
    check('connections', {
      used: z.int().describe('Connections of clients to the whole server.'),
      max: z.int().describe('Connections that the role of the API may use.'),
    }),
    check('statements', {
      slow: z.array(
        z.object({
          application_name: z.string(),
          pid: z.int().describe('Process of PostgreSQL.'),
          kind: z.enum(['running', 'idle_in_transaction']),
          seconds: z.int(),
        }),
      ),
    }),
    check('disk', {
      database_bytes: z.int(),
      growth_bytes_per_day: z
        .int()
        .nullable()
        .describe('Estimate by the steps of the last seven days; null without any.'),
      holds_database: z
        .boolean()
        .nullable()
        .describe('Whether `free_bytes` is of the disk with the database; null without a disk to look at.'),
      free_bytes: z.int().nullable().describe("Free bytes below the API's `DATA_DIR`."),
      total_bytes: z.int().nullable(),
    }),
    check('queue', { backend: z.enum(['redis', 'postgres', 'none']) }),
    check('workers', {
      workers: z.array(worker).describe('Of the last day, without stopped ones; at most 100.'),
    }),
    check('tools', {
      missing: z.array(z.string()).describe('Tools of agents that no living worker has.'),
      differing: z.array(z.string()).describe('Tools that living workers do not have alike.'),
    }),
    check('secrets', {
      key_id: secretKeyId.nullable().describe('The key that encrypts secrets; null: none.'),
      missing_key_ids: z.array(secretKeyId).describe('Keys of stored secrets that the API does not have.'),
    }),
    check('provider_keys', {
      keys: z.array(
        z.object({
          name: z.string().describe('The credential.'),
          state: z.enum(['sending', 'paused', 'halted']).describe('`halted`: until an operator acts.'),
          reason: z.string().nullable(),
          paused_until: time.nullable(),
          failures: z.int().describe('Creates in a row that the provider did not take or did not answer.'),
          last_accepted_at: time.nullable().describe('When the provider last took a provider batch.'),
          is_simulated: z.boolean().nullable().describe('Null: no worker has said so.'),
        }),
      ),
    }),
    check('clocks', {
      api_offset_seconds: z.number().describe("The API's time minus the database's."),
      providers: z.array(
        z.object({
          name: z.string().describe('The credential.'),
          offset_seconds: z.number().describe("The provider's time minus the database's."),
          uncertainty_seconds: z.number(),
          age_seconds: z.int().describe('Seconds since the measurement.'),
        }),
      ),
    }),
    check('backlog', {
      oldest: z.array(
        z.object({
          kind: z.enum([
            ...['batch', 'ready_runs', 'tool_calls', 'provider_batch', 'callback', 'schedule'],
            'forgotten_batch',
          ] as const),
          waited_seconds: z.int(),
        }),
      ),
    }),
    check('books', {
      audited_at: time.nullable().describe('End of the last audit of the workers.'),
      violations: z.array(z.object({ id: z.string(), name: z.string(), money: z.boolean() })),
    }),
    check('prices', {
      table_version: z.string(),
      table_age_days: z.int(),
      unpriced: z.array(
        z.object({ model: z.string(), agent_id: shownId('agent').describe('An agent with this model.') }),
      ),
    }),
    check('schedules', {
      until: time,
      schedules: z.array(upcoming),
      is_cut: z.boolean().describe('More than 100 schedules are due; the first are shown.'),
    }),
  ])
  .meta({ id: 'Check' });

export type Check = z.infer<typeof checkSchema>;
export type CheckName = Check['name'];
/** A check without its name. */
export type Judged<Name extends CheckName> = Omit<Extract<Check, { readonly name: Name }>, 'name'>;
export type DetailsOf<Name extends CheckName> = NonNullable<
  Extract<Check, { readonly name: Name }>['details']
>;

export const checksResponse = z
  .object({
    object: z.literal('checks'),
    checked_at: time,
    version: z.string().describe('Version of the API.'),
    ok: z.boolean().describe('True if no check is failing.'),
    checks: z.array(checkSchema),
  })
  .meta({
    id: 'Checks',
    examples: [
      { object: 'checks', checked_at: '2026-11-30T02:14:30.911Z', version: '0.1.0', ok: true, checks: [] },
    ],
  });

export const checksQuery = z.strictObject({
  at: moment
    .optional()
    .describe(
      'End of the look at schedules: what their ticks up to this time will meet. At most 7 days ahead. Default: 24 hours ahead.',
    ),
});
