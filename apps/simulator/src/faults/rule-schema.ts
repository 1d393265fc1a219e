import { z } from 'zod';
import { OPERATIONS } from '../api/exchange.ts';
import { SCRIPTS } from '../scripts/registry.ts';
import { batchActions } from './batch-actions.ts';
import { respondActions } from './respond-actions.ts';
import { resultActions } from './result-actions.ts';

const regularExpression = z.string().refine((text) => {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}, 'is not a regular expression');

/** The conditions of a rule. All must hold; `nth` and `every` count the requests that meet the others. */
const match = z
  .strictObject({
    nth: z.union([z.number().int().min(1), z.array(z.number().int().min(1))]),
    every: z.number().int().min(1),
    probability: z.number().min(0).max(1),
    /** Maximum number of firings. */
    times: z.number().int().min(1),
    /** Time by the simulator's clock, in ms since the epoch. */
    after_ms: z.number(),
    until_ms: z.number(),
    batch_id: z.string(),
    batch_seq: z.number().int().min(1),
    /** The `x-stainless-retry-count` of the HTTP request. */
    retry_count: z.number().int().nonnegative(),
  })
  .partial();

const requestMatch = match.omit({ retry_count: true, after_ms: true, until_ms: true }).extend({
  /** A regular expression. */
  custom_id: regularExpression.optional(),
  /** A substring of the params as sent. */
  contains: z.string().optional(),
  content_hash: z.string().optional(),
});

const outcome = z.discriminatedUnion('type', [
  /** Ends normally, whatever the configured fractions, a cancel or an expiry. */
  z.strictObject({ type: z.literal('succeed') }),
  z.strictObject({
    type: z.literal('errored'),
    error_type: z.string().default('api_error'),
    message: z.string().default('Internal server error'),
  }),
  z.strictObject({ type: z.literal('expire') }),
  z.strictObject({ type: z.literal('cancel') }),
  /** Errors the first `times` requests with this content or logical key; later ones succeed. */
  z.strictObject({
    type: z.literal('errorTimesThenSucceed'),
    times: z.number().int().min(1),
    by: z.enum(['content', 'logical_key']).default('content'),
    error_type: z.string().default('overloaded_error'),
    message: z.string().default('Overloaded'),
  }),
  z.strictObject({
    type: z.literal('script'),
    script: z.string().refine((name) => SCRIPTS.has(name), 'is not the name of a script'),
    args: z.record(z.string(), z.string()).default({}),
  }),
]);

/** One action of an operation rule. */
const actionSchema = z.discriminatedUnion('type', [...respondActions, ...batchActions, ...resultActions]);

/** Actions on unstreamed bodies. */
const ON_PLAIN_BODIES: ReadonlySet<string> = new Set([
  'delayBody',
  'closeIdle',
  'commitThenPartialBody',
  'commitThenTruncatedJson',
  'commitThenNoId',
]);

function isOnPlainBody(action: { readonly type: string } | undefined): boolean {
  return action !== undefined && ON_PLAIN_BODIES.has(action.type);
}

const id = z.string().min(1).max(100).optional();

const requestRule = z.strictObject({
  id,
  op: z.literal('request'),
  match: requestMatch.default({}),
  outcome,
});

const operationRule = z
  .strictObject({
    id,
    op: z.enum([...OPERATIONS, 'any']),
    match: match.default({}),
    action: actionSchema.optional(),
    actions: z.array(actionSchema).min(1).optional(),
  })
  .refine(
    (rule) => (rule.action === undefined) !== (rule.actions === undefined),
    'needs either "action" or "actions"',
  )
  .refine(
    (rule) => rule.op !== 'results' || ![rule.action, ...(rule.actions ?? [])].some(isOnPlainBody),
    `results are a stream: ${[...ON_PLAIN_BODIES].join(', ')} do nothing to it; take cut, stall, trickle or delayHeaders`,
  );

/** A rule of `POST /rules`: for single requests of batches (`op: "request"`) or for an API operation. */
export const ruleSchema = z.union([requestRule, operationRule]);

export type RuleInput = z.input<typeof ruleSchema>;
export type RequestRule = z.output<typeof requestRule>;
export type OperationRule = z.output<typeof operationRule>;
export type Outcome = z.output<typeof outcome>;
