import { z } from 'zod';
import type { Reply } from '../api/reply.ts';
import { errorBody, typeOfStatus } from '../api-error.ts';
import type { Fault } from './fault.ts';

const reply = {
  code: z.number().int().min(200).max(599),
  /** The `type` in the error envelope. Default: by the status code. */
  error_type: z.string().optional(),
  message: z.string().default('injected by a rule'),
  error_code: z.string().optional(),
  headers: z.record(z.string(), z.string()).default({}),
  /** Replaces the error envelope. */
  body: z.string().optional(),
  content_type: z.string().default('application/json'),
};

/** Actions on the answer of any operation. `commitThen…`: the request takes effect, but its answer is lost. */
export const respondActions = [
  z.strictObject({ type: z.literal('status'), ...reply }),
  z.strictObject({ type: z.literal('dropBefore') }),
  z.strictObject({ type: z.literal('hangBefore') }),
  z.strictObject({ type: z.literal('delayHeaders'), ms: z.number().nonnegative() }),
  z.strictObject({ type: z.literal('delayBody'), ms: z.number().nonnegative() }),
  /** Holds the request until the rule is deleted: a crash point at the provider. */
  z.strictObject({ type: z.literal('hold'), at: z.enum(['before', 'committed']).default('before') }),
  z.strictObject({ type: z.literal('closeIdle'), after_ms: z.number().nonnegative().default(0) }),
  z.strictObject({ type: z.literal('commitThenDrop') }),
  z.strictObject({ type: z.literal('commitThenHang') }),
  z.strictObject({ type: z.literal('commitThenStatus'), ...reply }),
  z.strictObject({
    type: z.literal('commitThenPartialBody'),
    bytes: z.number().int().nonnegative().default(20),
  }),
  z.strictObject({ type: z.literal('commitThenTruncatedJson') }),
  z.strictObject({ type: z.literal('commitThenHtml200') }),
  z.strictObject({ type: z.literal('commitThenNoId') }),
] as const;

type RespondAction = z.output<(typeof respondActions)[number]>;

type StatusAction = Extract<RespondAction, { type: 'status' | 'commitThenStatus' }>;

function statusReply(action: StatusAction, requestId: string): Reply {
  const type = action.error_type ?? typeOfStatus(action.code);
  const error = {
    status: action.code,
    type,
    message: action.message,
    ...(action.error_code === undefined ? {} : { error_code: action.error_code }),
  };
  return {
    status: action.code,
    headers: { 'content-type': action.content_type, ...action.headers },
    body: action.body ?? errorBody(error, requestId),
    error_type: type,
  };
}

const withDelivery = (base: Reply, delivery: Reply['delivery']): Reply => ({
  ...base,
  delivery: { ...base.delivery, ...delivery },
});

const NOTHING: Reply = { status: 0, headers: {}, body: '' };
const HTML =
  '<!DOCTYPE html><html><head><title>Just a moment</title></head><body><h1>Please wait</h1></body></html>';

function withoutId(body: string): string {
  const { id: _id, ...rest } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** Returns the stages of a respond action; undefined for another family. `released` resolves when the rule is deleted. */
export function respondFault(
  action: { readonly type: string },
  ruleId: string,
  released: Promise<void>,
): Fault | undefined {
  const known = action as RespondAction;
  switch (known.type) {
    case 'status':
      return { ruleId, before: ({ requestId }) => statusReply(known, requestId) };
    case 'dropBefore':
      return { ruleId, before: () => withDelivery(NOTHING, { instead: 'drop' }) };
    case 'hangBefore':
      return { ruleId, before: () => withDelivery(NOTHING, { instead: 'hang' }) };
    case 'delayHeaders':
      return { ruleId, after: (sent) => withDelivery(sent, { headers_after_ms: known.ms }) };
    case 'delayBody':
      return { ruleId, after: (sent) => withDelivery(sent, { body_after_ms: known.ms }) };
    case 'hold':
      if (known.at === 'before') return { ruleId, before: () => released.then(() => undefined) };
      return { ruleId, after: (sent) => released.then(() => sent) };
    case 'closeIdle':
      return { ruleId, after: (sent) => withDelivery(sent, { close_after_ms: known.after_ms }) };
    case 'commitThenDrop':
      return { ruleId, after: (sent) => withDelivery(sent, { instead: 'drop' }) };
    case 'commitThenHang':
      return { ruleId, after: (sent) => withDelivery(sent, { instead: 'hang' }) };
    case 'commitThenStatus':
      return { ruleId, after: (_sent, { requestId }) => statusReply(known, requestId) };
    case 'commitThenPartialBody':
      return { ruleId, after: (sent) => withDelivery(sent, { cut_after_bytes: known.bytes }) };
    case 'commitThenTruncatedJson':
      return {
        ruleId,
        after: (sent) => ({ ...sent, body: sent.body.slice(0, Math.ceil(sent.body.length / 2)) }),
      };
    case 'commitThenHtml200':
      return { ruleId, after: () => ({ status: 200, headers: { 'content-type': 'text/html' }, body: HTML }) };
    case 'commitThenNoId':
      return { ruleId, after: (sent) => ({ ...sent, body: withoutId(sent.body) }) };
    default:
      return undefined;
  }
}
