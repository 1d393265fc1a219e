/** Messages that every host has. A host may add its own kinds. `Call` and `Reply` are its own records. */
export type ToHost<Call> =
  /** `repeated`: a process ended while the call may have been running. */
  | ({ readonly kind: 'call'; readonly id: number; readonly repeated: boolean } & Call)
  | { readonly kind: 'cancel'; readonly id: number }
  /** Answered by the worker link. */
  | { readonly kind: 'ping' };

export type FromHost<Reply> =
  /** The process takes calls. */
  | { readonly kind: 'ready' }
  /** These calls are about to run. The message has left the process before a call runs that must not be repeated. */
  | { readonly kind: 'starting'; readonly ids: readonly number[] }
  /** `isBroken`: the process should be replaced. */
  | { readonly kind: 'ended'; readonly id: number; readonly reply: Reply; readonly isBroken?: boolean }
  | { readonly kind: 'pong' };

/**
 * Descriptors of a host process for frames, one per direction: a failed write closes its pipe unread, and the last output
 * must be read. 0 closes with the worker, 1 and 2 are log text.
 */
export const TO_HOST_FD = 3;
export const FROM_HOST_FD = 4;
