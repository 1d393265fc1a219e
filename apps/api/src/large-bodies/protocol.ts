import type { OutgoingHttpHeaders } from 'node:http';
import type { Signal } from '@nightshift/queue';
import type { HeldBytes, ThreadPlace } from '../body-budget.ts';
import type { Context } from '../context.ts';
import type { HandedOver } from './handed-over.ts';

/** The start settings of the thread of large bodies. */
export interface ThreadSettings extends Pick<
  Context,
  'model' | 'prices' | 'secretsKeys' | 'toolsAllowPrivate'
> {
  readonly apiKey: string;
  readonly bodyBytesMax: number;
  readonly heldBytes: HeldBytes;
  /** Default: of large bodies. */
  readonly threadPlace?: ThreadPlace | undefined;
  readonly databaseUrl: string;
}

/** A message to the thread. */
export type ToThread =
  | { readonly kind: 'request'; readonly id: number; readonly request: HandedOver }
  /** The next part of an upload; null after the last. */
  | { readonly kind: 'part'; readonly id: number; readonly part: Uint8Array<ArrayBuffer> | null }
  /** The rest of an upload cannot be read. */
  | { readonly kind: 'cut'; readonly id: number; readonly error: Error };

/** The thread's answer to a request. */
export interface ThreadAnswer {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** A message from the thread. */
export type FromThread =
  | { readonly kind: 'answer'; readonly id: number; readonly answer: ThreadAnswer }
  /** Asks for the next part of an upload. */
  | { readonly kind: 'next'; readonly id: number }
  | { readonly kind: 'failed'; readonly id: number; readonly error: Error }
  | { readonly kind: 'ring'; readonly signals: readonly Signal[] }
  | { readonly kind: 'log'; readonly line: string };
