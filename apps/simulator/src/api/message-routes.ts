import type { IncomingMessage } from 'node:http';
import { answerRequest, messageJson } from '../answer.ts';
import { apiFailure } from '../api-error.ts';
import { createPrefixReader } from '../cache/prefixes.ts';
import { contentHashOf, drawFrom } from '../draws.ts';
import type { MessageParams } from '../scripts/script.ts';
import type { SimulatorState } from '../state.ts';
import { tokensOfBytes } from '../tokens.ts';
import { listPriceUsd, usageOf, WEB_SEARCH_USD } from '../usage.ts';
import type { ValidationContext } from '../validate/issue.ts';
import { paramsIssue } from '../validate/params.ts';
import { jsonReply } from './reply.ts';
import type { Exchange } from './exchange.ts';
import type { Reply } from './reply.ts';

/** Maximum body of a single request in bytes. */
const MAX_MESSAGE_BYTES = 32_000_000;

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= MAX_MESSAGE_BYTES) chunks.push(chunk);
  }
  if (size > MAX_MESSAGE_BYTES) throw apiFailure('request_too_large', 'Request exceeds the maximum size');
  return Buffer.concat(chunks);
}

async function readParams(
  state: SimulatorState,
  exchange: Exchange,
  endpoint: ValidationContext['endpoint'],
): Promise<{ params: MessageParams; bytes: Buffer }> {
  const bytes = await readBody(exchange.request);
  exchange.entry.request_bytes = bytes.length;
  let params: unknown;
  try {
    params = JSON.parse(bytes.toString());
  } catch (error) {
    throw apiFailure(
      'invalid_request_error',
      `The request body is not valid JSON: ${(error as Error).message}`,
    );
  }
  const { version, betas } = exchange;
  const issue = paramsIssue(params, {
    endpoint,
    version,
    betas,
    seed: state.seed,
    paramsBytes: bytes.length,
  });
  if (issue !== undefined) throw apiFailure(issue.type, issue.message);
  return { params: params as MessageParams, bytes };
}

/** `POST /v1/messages` without streaming: the models of batches, at list price. */
export async function handleMessages(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  const { params, bytes } = await readParams(state, exchange, 'messages');
  if (params['stream'] === true) {
    throw apiFailure('invalid_request_error', 'stream: this simulator answers whole messages only');
  }
  const contentHash = contentHashOf(bytes);
  const { settings, seed, cache, clock, ledger } = state;
  const answer = answerRequest(
    { params, contentHash, identity: 'message' },
    { seed, defaultScript: { script: settings.default_script, args: settings.default_script_args } },
  );
  if (answer.kind === 'error') throw apiFailure(answer.type, answer.message);
  const prefixes = createPrefixReader(exchange.workspace).prefixesOf(params, answer.model, bytes.length);
  // There is no custom id: the same request sent again is told apart by its count.
  const times = ledger.byContentHash(contentHash)?.times ?? 0;
  const missed = drawFrom(seed, 'cache miss', contentHash, times) < settings.cache_miss;
  const read = cache.use(prefixes, clock.now(), missed);
  const usage = usageOf(tokensOfBytes(bytes.length), answer.output_tokens, prefixes, read);
  if (answer.billable) {
    const usd = listPriceUsd(answer.model, usage) + answer.web_searches * WEB_SEARCH_USD;
    ledger.bill({ batch: null, customId: null, contentHash, usage, usd });
  }
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: messageJson(answer, usage, 'standard'),
  };
}

/** `POST /v1/messages/count_tokens` */
export async function handleCountTokens(state: SimulatorState, exchange: Exchange): Promise<Reply> {
  const { bytes } = await readParams(state, exchange, 'count_tokens');
  return jsonReply({ input_tokens: tokensOfBytes(bytes.length) });
}
