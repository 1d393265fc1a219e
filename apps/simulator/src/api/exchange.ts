import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Fault } from '../faults/fault.ts';
import type { JournalEntry } from '../journal.ts';

/** The operations of the API port. */
export const OPERATIONS = [
  'create',
  'retrieve',
  'list',
  'cancel',
  'delete',
  'results',
  'messages',
  'count_tokens',
  'list_models',
  'retrieve_model',
  'unknown',
] as const;

/** One of them. */
export type Operation = (typeof OPERATIONS)[number];

/** One request to the API port while it is handled. */
export interface Exchange {
  readonly op: Operation;
  readonly url: URL;
  /** The batch or model that the path names. */
  readonly target: string | null;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly version: string;
  readonly betas: readonly string[];
  readonly workspace: string;
  /** Scheme, host and port as the client knows them. */
  readonly origin: string;
  readonly faults: readonly Fault[];
  readonly entry: JournalEntry;
}
