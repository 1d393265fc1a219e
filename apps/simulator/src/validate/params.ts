import { findModel } from '../models.ts';
import type { Model } from '../models.ts';
import type { MessageParams } from '../scripts/script.ts';
import { tokensOfBytes } from '../tokens.ts';
import { cacheControlIssue } from './cache-control.ts';
import { invalid, isObject } from './issue.ts';
import type { Issue, ValidationContext } from './issue.ts';
import { messagesIssue } from './messages.ts';
import { pairingIssue } from './pairing.ts';
import { effortIssue, signatureIssue, thinkingIssue } from './thinking.ts';
import { strictIssue } from './strict.ts';
import { toolChoiceIssue, toolsIssue } from './tools.ts';

const COUNTED = [
  'model',
  'messages',
  'cache_control',
  'output_config',
  'speed',
  'system',
  'thinking',
  'tool_choice',
  'tools',
];

const CREATED = [
  ...COUNTED,
  'max_tokens',
  'container',
  'diagnostics',
  'inference_geo',
  'metadata',
  'service_tier',
  'stop_sequences',
  'stream',
  'user_profile_id',
];

const KNOWN: Readonly<Record<ValidationContext['endpoint'], ReadonlySet<string>>> = {
  count_tokens: new Set(COUNTED),
  messages: new Set(CREATED),
  batch: new Set(CREATED),
};

const BETA_PARAMS = new Set(['mcp_servers', 'context_management', 'betas']);
const SAMPLING = ['temperature', 'top_p', 'top_k'];
/** First version that refuses sampling parameters of any value. */
const VERSION_WITHOUT_SAMPLING = '2026-10-21';
const NOT_IN_BATCHES = [
  'fallbacks',
  'thread',
  'store',
  'previous_thread_event_id',
  'cache_hint',
  'context_hint',
];
const EXTENDED_OUTPUT_BETA = 'output-300k-2026-03-24';
const EXTENDED_OUTPUT_TOKENS = 300_000;

function keyIssue(params: Record<string, unknown>, context: ValidationContext): Issue | undefined {
  const known = KNOWN[context.endpoint];
  for (const key of Object.keys(params)) {
    if (known.has(key)) continue;
    if (SAMPLING.includes(key) && context.version < VERSION_WITHOUT_SAMPLING) continue;
    if (BETA_PARAMS.has(key) && context.betas.length > 0) continue;
    if (context.endpoint === 'batch' && NOT_IN_BATCHES.includes(key))
      return invalid(`${key}: not supported in message batches`);
    return invalid(`${key}: Extra inputs are not permitted`);
  }
  if (context.endpoint === 'batch') {
    if (params['stream'] === true) return invalid('stream: streaming is not supported in message batches');
    if (params['speed'] != null && params['speed'] !== 'standard') {
      return invalid('speed: fast mode is not supported in message batches');
    }
  }
  return undefined;
}

function samplingIssue(params: Record<string, unknown>): Issue | undefined {
  for (const key of SAMPLING) {
    const value = params[key];
    if (value !== undefined && typeof value !== 'number')
      return invalid(`${key}: Input should be a valid number`);
  }
  const temperature = params['temperature'];
  if (typeof temperature === 'number' && (temperature < 0 || temperature > 1)) {
    return invalid('temperature: range: 0..1');
  }
  return undefined;
}

function maxTokensIssue(value: unknown, model: Model, context: ValidationContext): Issue | undefined {
  if (value === undefined) return invalid('max_tokens: Field required');
  if (typeof value !== 'number' || !Number.isInteger(value))
    return invalid('max_tokens: Input should be a valid integer');
  if (value < 1) return invalid('max_tokens: Input should be greater than or equal to 1');
  const extended =
    context.endpoint === 'batch' && model.extended_output && context.betas.includes(EXTENDED_OUTPUT_BETA);
  const limit = extended ? EXTENDED_OUTPUT_TOKENS : model.max_output;
  if (value <= limit) return undefined;
  return invalid(
    `max_tokens: ${value} > ${limit}, which is the maximum allowed number of output tokens for ${model.id}`,
  );
}

function smallFieldsIssue(params: Record<string, unknown>): Issue | undefined {
  const metadata = params['metadata'];
  if (metadata !== undefined && !isObject(metadata))
    return invalid('metadata: Input should be a valid dictionary');
  const userId = isObject(metadata) ? metadata['user_id'] : undefined;
  // A directive to the simulator may exceed the provider's limit.
  const isDirective = typeof userId === 'string' && userId.startsWith('sim:');
  if (userId != null && !isDirective && (typeof userId !== 'string' || userId.length > 256)) {
    return invalid('metadata.user_id: String should have at most 256 characters');
  }
  const sequences = params['stop_sequences'];
  if (sequences !== undefined) {
    if (!Array.isArray(sequences)) return invalid('stop_sequences: Input should be a valid list');
    const at = sequences.findIndex((sequence) => typeof sequence !== 'string' || sequence.trim() === '');
    if (at >= 0) return invalid(`stop_sequences.${at}: each stop sequence must contain non-whitespace`);
  }
  return undefined;
}

function systemIssue(system: unknown): Issue | undefined {
  if (system === undefined || typeof system === 'string') return undefined;
  if (!Array.isArray(system)) return invalid('system: Input should be a valid string or list');
  for (const [at, block] of system.entries()) {
    if (!isObject(block) || block['type'] !== 'text' || typeof block['text'] !== 'string') {
      return invalid(`system.${at}: Input should be a text block`);
    }
    if (block['text'] === '') return invalid(`system.${at}.text: text content blocks must be non-empty`);
  }
  return undefined;
}

/** Returns the first problem of a request's params; undefined when they are valid MessageParams. */
export function paramsIssue(params: unknown, context: ValidationContext): Issue | undefined {
  if (!isObject(params)) return invalid('params: Input should be a valid dictionary');
  const keys = keyIssue(params, context) ?? samplingIssue(params) ?? smallFieldsIssue(params);
  if (keys !== undefined) return keys;
  if (typeof params['model'] !== 'string') return invalid('model: Field required');
  const model = findModel(params['model']);
  if (model === undefined) return { type: 'not_found_error', message: `model: ${params['model']}` };
  if (context.endpoint !== 'count_tokens') {
    const issue = maxTokensIssue(params['max_tokens'], model, context);
    if (issue !== undefined) return issue;
  }
  const shape =
    systemIssue(params['system']) ??
    toolsIssue(params['tools']) ??
    messagesIssue(params['messages'], model, context);
  if (shape !== undefined) return shape;
  const typed = params as MessageParams;
  const issue =
    toolChoiceIssue(typed, model) ??
    strictIssue(typed) ??
    cacheControlIssue(typed) ??
    pairingIssue(typed, model) ??
    thinkingIssue(typed, model) ??
    effortIssue(typed, model) ??
    signatureIssue(typed, model, context);
  if (issue !== undefined) return issue;
  const tokens = tokensOfBytes(context.paramsBytes);
  if (tokens > model.context_window) {
    return invalid(`prompt is too long: ${tokens} tokens > ${model.context_window} maximum`);
  }
  return undefined;
}
