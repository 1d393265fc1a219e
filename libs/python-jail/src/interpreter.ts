import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { z } from 'zod';
import { readInside } from './read-inside.ts';

/** A CPython of the machine, and the folders that it needs in the jail. */
export interface Interpreter {
  readonly executable: string;
  /** Such as `3.11.2`. */
  readonly version: string;
  readonly stdlib: readonly string[];
  /** Folders of the shared libraries of the interpreter and of its standard library. */
  readonly libraries: readonly string[];
}

/** Places of the machine's interpreter. PATH is not searched: it may lead to a version manager's script. */
export const INTERPRETERS: readonly string[] = ['/usr/local/bin/python3', '/usr/bin/python3'];

const MINOR_MIN = 9;
const TIMEOUT_MS = 10_000;

const described = z.object({
  implementation: z.string(),
  version: z.tuple([z.number(), z.number(), z.number()]),
  executable: z.string(),
  stdlib: z.array(z.string()),
  libraries: z.array(z.string()),
});

/** Returns the first CPython of 3.9 or newer. Throws: Error that says which were found and what to do. */
export async function findInterpreter(paths: readonly string[] = INTERPRETERS): Promise<Interpreter> {
  const found: string[] = [];
  for (const path of paths.filter((each) => existsSync(each))) {
    const { implementation, version, executable, stdlib, libraries } = await describe(path);
    const [major, minor] = version;
    if (implementation === 'cpython' && major === 3 && minor >= MINOR_MIN)
      return { executable, version: version.join('.'), stdlib, libraries };
    found.push(`${path} is ${implementation} ${version.join('.')}`);
  }
  const reason = found.length === 0 ? `there is none at ${paths.join(' or ')}` : found.join(', ');
  throw new Error(`CPython 3.${MINOR_MIN} or newer is needed, but ${reason}; install python3`);
}

async function describe(path: string): Promise<z.output<typeof described>> {
  const program = ['-I', '-S', '-B', '-c', readInside('interpreter')];
  const { stdout } = await promisify(execFile)(path, program, { env: {}, cwd: '/', timeout: TIMEOUT_MS });
  return described.parse(JSON.parse(stdout));
}
