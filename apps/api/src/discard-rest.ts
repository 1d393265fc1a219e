import type { ServerResponse } from 'node:http';
import { finished, type Readable, type Writable } from 'node:stream';

/** Discards the unread request body after the answer, so that keep-alive is not blocked by a full tap. */
export function discardRest(payload: Readable, tap: Writable, answer: ServerResponse): void {
  finished(answer, () => payload.unpipe(tap).resume());
}
