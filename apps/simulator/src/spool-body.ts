import { open, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { apiFailure } from './api-error.ts';
import type { BatchItem } from './batch.ts';
import { createBodyScanner } from './body-scanner.ts';
import type { ScannedBody, ScannedItem } from './body-scanner.ts';

/** A create body on disk. */
export interface SpooledBody {
  readonly bodyPath: string;
  readonly bodyBytes: number;
  readonly items: readonly BatchItem[];
}

/** Limits of a body. */
export interface BodyLimits {
  readonly maxBytes: number;
  readonly maxRequests: number;
}

const CUSTOM_ID = /^[a-zA-Z0-9_-]{1,64}$/;
const MAX_CUSTOM_ID_LENGTH = 64;

function itemIssue(item: ScannedItem, known: ReadonlySet<string>): string | undefined {
  const path = `requests.${item.index}`;
  if (!item.is_object) return `${path}: Input should be a valid dictionary`;
  const id = item.custom_id;
  if (id === undefined) return `${path}.custom_id: Field required`;
  if (id === null) return `${path}.custom_id: Input should be a valid string`;
  if (id.length > MAX_CUSTOM_ID_LENGTH) return `${path}.custom_id: String should have at most 64 characters`;
  if (id.length === 0) return `${path}.custom_id: String should have at least 1 character`;
  if (!CUSTOM_ID.test(id)) return `${path}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'`;
  if (known.has(id))
    return `${path}.custom_id: custom_id must be unique within a batch; "${id}" was used before`;
  if (item.params === undefined) return `${path}.params: Field required`;
  if (item.unknown_key !== undefined) return `${path}.${item.unknown_key}: Extra inputs are not permitted`;
  return undefined;
}

function bodyIssue(body: ScannedBody, limits: BodyLimits): string | undefined {
  if (!body.is_object) return 'Input should be a valid dictionary';
  if (body.requests === undefined) return 'requests: Field required';
  if (body.requests === 'other') return 'requests: Input should be a valid list';
  if (body.count === 0) return 'requests: List should have at least 1 item after validation, not 0';
  if (body.count > limits.maxRequests) {
    return `requests: List should have at most ${limits.maxRequests} items after validation, not ${body.count}`;
  }
  return body.unknown_key === undefined ? undefined : `${body.unknown_key}: Extra inputs are not permitted`;
}

let nextNumber = 1;

/**
 * Writes the body of a create to a file under `dir` and checks its envelope on the way. It holds one request and the custom
 * ids in memory. An invalid body is still read to its end, so that the client can read the refusal.
 * Throws: ApiFailure for an invalid body; Error when the client disconnects or the disk is full. The file is then deleted.
 */
export async function spoolBody(
  request: IncomingMessage,
  dir: string,
  limits: BodyLimits,
): Promise<SpooledBody> {
  const bodyPath = join(dir, `body-${nextNumber++}`);
  let items: BatchItem[] = [];
  let ids = new Set<string>();
  let issue: string | undefined;
  const scanner = createBodyScanner((item) => {
    if (item.index === 0) {
      items = [];
      ids = new Set();
    }
    if (issue !== undefined || item.index >= limits.maxRequests) return;
    issue = itemIssue(item, ids);
    if (issue !== undefined || typeof item.custom_id !== 'string' || item.params === undefined) return;
    ids.add(item.custom_id);
    items.push({ customId: item.custom_id, ...item.params });
  });
  const file = await open(bodyPath, 'w');
  let bodyBytes = 0;
  let syntax: string | undefined;
  let diskError: Error | undefined;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bodyBytes += chunk.length;
      if (syntax !== undefined || bodyBytes > limits.maxBytes) continue;
      try {
        scanner.push(chunk);
      } catch (error) {
        syntax = (error as SyntaxError).message;
      }
      if (syntax === undefined && issue === undefined && diskError === undefined)
        await file.writeFile(chunk).catch((error: unknown) => (diskError = error as Error));
    }
    if (diskError !== undefined) throw diskError;
    if (bodyBytes > limits.maxBytes)
      throw apiFailure('request_too_large', 'Request exceeds the maximum size');
    if (syntax !== undefined)
      throw apiFailure('invalid_request_error', `The request body is not valid JSON: ${syntax}`);
    let body: ScannedBody;
    try {
      body = scanner.end();
    } catch (error) {
      throw apiFailure(
        'invalid_request_error',
        `The request body is not valid JSON: ${(error as Error).message}`,
      );
    }
    const found = bodyIssue(body, limits) ?? issue;
    if (found !== undefined) throw apiFailure('invalid_request_error', found);
    return { bodyPath, bodyBytes, items };
  } catch (error) {
    await rm(bodyPath, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}
