import { z } from 'zod';
import type { Jail } from './jail.ts';
import { runInJail } from './process.ts';

const problem = z.object({
  problem: z.string(),
  line: z.number().optional(),
  column: z.number().optional(),
});
const inspection = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.array(z.object({ name: z.string(), required: z.boolean() })),
  /** Of the arguments, from annotations and docstring. */
  schema: z.record(z.string(), z.unknown()).optional(),
  /** Why there is no schema. */
  schema_problem: problem.optional(),
});

/** One sentence about a fault of a source, and its place. */
export type SourceProblem = z.output<typeof problem>;
/** A tool as its source describes it, or the fault of the source. */
export type SourceInspection = z.output<typeof inspection> | SourceProblem;

const TIMEOUT_MS = 5_000;
/** A description is a part of its source, each of whose characters has at most six bytes in JSON twice encoded. */
const REPLY_BYTES_MAX = 4 * 1024 * 1024;

/** The inspection before this one: each may take all the memory of a process. */
let previous: Promise<unknown> = Promise.resolve();

/** Reads the function `name` of a source, or its last one. Throws: Error if the jail does not start. */
export async function inspectSource(
  jail: Jail,
  source: string,
  name: string | null,
): Promise<SourceInspection> {
  const inspected = previous.then(() =>
    runInJail(jail, {
      ...{ program: 'inspect_source', request: { source, name } },
      ...{ timeoutMs: TIMEOUT_MS, replyBytesMax: REPLY_BYTES_MAX },
    }),
  );
  previous = inspected;
  const { status, result, started } = await inspected;
  if (!started) throw new Error(result);
  const found =
    status === 'succeeded' ? z.union([inspection, problem]).safeParse(parse(result)).data : undefined;
  return found ?? { problem: 'the source is nested too deeply or too complex' };
}

/** A source that breaks its parser may answer anything. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
