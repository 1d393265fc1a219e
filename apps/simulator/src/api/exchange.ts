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

export type Operation = (typeof OPERATIONS)[number];

/** A request to the API port under work. */
export interface Exchange {
  readonly op: Operation;
  readonly url: URL;
  /** The id of a batch or model in the path. */
  readonly target: string | null;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly version: string;
  readonly betas: readonly string[];
  readonly workspace: string;
  /** Scheme, host and port from the client's view. */
  readonly origin: string;
  readonly faults: readonly Fault[];
  readonly entry: JournalEntry;
}
