import { z } from 'zod';
import { OUTPUT_CHARS_MAX, RESULT_CHAR_LIMIT_MAX } from './contract.ts';
import type { FromSandboxHost } from './messages.ts';

const id = z.int().min(0);
const output = z.string().max(OUTPUT_CHARS_MAX);

/** The host process runs hostile code, so its messages are checked like those of a stranger. */
const fromHost = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('ready') }),
  z.strictObject({ kind: z.literal('pong') }),
  z.strictObject({ kind: z.literal('fetch'), id, fetch: id, request: z.string() }),
  z.strictObject({
    kind: z.literal('ended'),
    id,
    reply: z.strictObject({
      status: z.enum(['succeeded', 'failed', 'timed_out', 'crashed']),
      result: z.string().max(RESULT_CHAR_LIMIT_MAX),
      duration_ms: z.number().min(0),
      truncated: z.boolean(),
      stdout: output,
      stderr: output,
    }),
    isBroken: z.boolean(),
  }),
]) satisfies z.ZodType<FromSandboxHost>;

/** Reads a message of the host process. Throws: it has another shape. */
export function readMessage(value: unknown): FromSandboxHost {
  return fromHost.parse(value);
}
