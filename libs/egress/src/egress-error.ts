/**
 * Reason why a request has no answer.
 * - `private_address`: the host is inside a private network. Permanent.
 * - `refused`: the URL, a header or a redirect is not allowed. Permanent.
 * - `unreachable`: no connection, or it broke.
 * - `timed_out`: the total time passed.
 * - `aborted`: the caller's signal fired.
 * - `too_large`: the answer has more bytes than allowed.
 */
export type EgressErrorCode =
  'private_address' | 'refused' | 'unreachable' | 'timed_out' | 'aborted' | 'too_large';

/** Thrown by requests without a complete answer. Its message holds neither headers nor bodies. */
export class EgressError extends Error {
  override readonly name = 'EgressError';
  readonly code: EgressErrorCode;
  /** False only if no byte of a request has left: a repeat is then harmless. */
  readonly sent: boolean;
  constructor(code: EgressErrorCode, message: string, sent: boolean) {
    super(message);
    this.code = code;
    this.sent = sent;
  }
}
