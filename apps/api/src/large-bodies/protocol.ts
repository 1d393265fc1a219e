import type { OutgoingHttpHeaders } from 'node:http';
import type { Signal } from '@nightshift/queue';
import type { HeldBytes } from '../body-budget.ts';
import type { Context } from '../context.ts';
import type { HandedOver } from './handed-over.ts';

/** The start settings of the thread of large bodies. */
export interface ThreadSettings extends Pick<Context, 'model' | 'prices'> {
  readonly apiKey: string;
  readonly bodyBytesMax: number;
  readonly heldBytes: HeldBytes;
  readonly databaseUrl: string;
}

/** A message to the thread. */
export interface ToThread {
  readonly id: number;
  readonly request: HandedOver;
}

/** The thread's answer to a request. */
export interface ThreadAnswer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** A message from the thread. */
export type FromThread =
  | { readonly kind: 'answer'; readonly id: number; readonly answer: ThreadAnswer }
  | { readonly kind: 'failed'; readonly id: number; readonly error: Error }
  | { readonly kind: 'ring'; readonly signals: readonly Signal[] }
  | { readonly kind: 'log'; readonly line: string };
