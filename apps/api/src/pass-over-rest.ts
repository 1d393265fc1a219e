import type { ServerResponse } from 'node:http';
import { finished, type Readable, type Writable } from 'node:stream';

/**
 * Reads away what is left of a body once its request is answered, which may be before anybody has read the tap that it
 * goes through: what stays before a full tap would hold up the next request of the connection.
 */
export function passOverRest(payload: Readable, tap: Writable, answer: ServerResponse): void {
  finished(answer, () => payload.unpipe(tap).resume());
}
