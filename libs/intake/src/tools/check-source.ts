import { Worker } from 'node:worker_threads';
import { NightshiftError } from '@nightshift/agent-core';
import type { SourceCheck, SourceTask } from './check-thread.ts';

/** Maximum length of an uploaded source. Unit: bytes of UTF-8. */
export const SOURCE_BYTES_MAX = 256 * 1024;
const CHECK_TIMEOUT_MS = 5_000;
const THREAD_MEMORY = { maxOldGenerationSizeMb: 256, stackSizeMb: 4 };

export interface UploadedSource {
  /** Name of the tool and of its function. */
  readonly name: string;
  readonly source: string;
  readonly source_type: 'javascript' | 'typescript';
  /** Letta's form: the schema of the arguments is `parameters`. */
  readonly json_schema: Readonly<Record<string, unknown>>;
}

export interface CheckedSource {
  /** An ES module in JavaScript with the function as an export, to be stored and run. Lines are those of the source. */
  readonly code: string;
  /** Names of the arguments in Letta's order: the required ones, then the others as the schema has them. */
  readonly parameters: readonly string[];
}

/** The check before this one: a thread takes memory, so there is one at a time. */
let previous: Promise<unknown> = Promise.resolve();

/**
 * Checks an uploaded tool and returns the text to store. Evaluates nothing of it.
 * Throws: `invalid_argument` for a schema without properties, a source of more than {@link SOURCE_BYTES_MAX}, a syntax error
 * (with line and column), an import, or a source without the function.
 */
export async function checkSource({
  name,
  source,
  source_type,
  json_schema,
}: UploadedSource): Promise<CheckedSource> {
  const parameters = readParameters(json_schema);
  const bytes = Buffer.byteLength(source);
  if (bytes > SOURCE_BYTES_MAX)
    throw refuse('/source_code', `has ${bytes} bytes; at most ${SOURCE_BYTES_MAX} are allowed`);
  const checked = previous.then(() => checkInThread({ name, source, source_type }));
  previous = checked.catch(() => undefined);
  const check = await checked;
  if ('code' in check) return { code: check.code, parameters };
  const { line, column, problem } = check;
  throw refuse(
    '/source_code',
    line === undefined ? problem : `line ${line}, column ${column ?? 1}: ${problem}`,
  );
}

function readParameters({ parameters }: UploadedSource['json_schema']): readonly string[] {
  const { type, properties, required } = asRecord(parameters);
  if (type !== 'object')
    throw refuse('/json_schema/parameters', "must be a JSON Schema with type 'object' and properties");
  const names = Object.keys(asRecord(properties));
  const first = Array.isArray(required) ? required.filter((name) => names.includes(name as string)) : [];
  return [...new Set([...(first as string[]), ...names])];
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Never rejects. */
async function checkInThread(task: SourceTask): Promise<SourceCheck> {
  const worker = new Worker(new URL('./check-thread.ts', import.meta.url), {
    workerData: task,
    resourceLimits: THREAD_MEMORY,
    env: {},
    execArgv: ['--disable-warning=ExperimentalWarning'],
  });
  const { promise, resolve } = Promise.withResolvers<SourceCheck>();
  const tooComplex = (): void => resolve({ problem: 'the source is nested too deeply or too complex' });
  const timer = setTimeout(tooComplex, CHECK_TIMEOUT_MS);
  worker.once('message', resolve);
  worker.once('error', tooComplex);
  worker.once('exit', tooComplex);
  const check = await promise;
  clearTimeout(timer);
  await worker.terminate();
  return check;
}

function refuse(path: string, message: string): NightshiftError {
  const subject = path === '/source_code' ? 'The source of the tool' : 'The schema of the tool';
  return new NightshiftError('invalid_argument', `${subject} cannot be used: ${message}.`, {
    fields: [{ path, message }],
  });
}
