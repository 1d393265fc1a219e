import { foldersOf, readOnlyFolders, topOf, type Jail } from './jail.ts';
import { runInJail } from './process.ts';

const SELF_TEST_TIMEOUT_MS = 10_000;
/** Paths of a machine that must be absent in the jail. */
const HIDDEN = [
  '/etc',
  '/proc',
  '/sys',
  '/home',
  '/root',
  '/tmp',
  '/var',
  '/run',
  '/app',
  '/usr/bin/env',
  '/bin',
];

/** Tests a jail from inside. Throws: Error that names the holes, or why the jail does not start. */
export async function testJail(jail: Jail): Promise<void> {
  const { interpreter } = jail;
  const mounted = [...foldersOf(interpreter), interpreter.executable];
  const hidden = HIDDEN.filter((path) => !mounted.some((each) => `${each}/`.startsWith(`${path}/`)));
  const { status, result, started } = await runInJail(jail, {
    program: 'probe',
    request: { hidden, top: topOf(interpreter), folders: readOnlyFolders(interpreter) },
    timeoutMs: SELF_TEST_TIMEOUT_MS,
    replyBytesMax: 64 * 1024,
  });
  if (status === 'succeeded' && result === '{}') return;
  if (status === 'succeeded') throw new Error(`the self-test of the jail found ${result}`);
  throw new Error(started ? result : `${result}; the kernel must allow user namespaces to this process`);
}
