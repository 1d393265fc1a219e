import { execFile } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { HostCommand } from '@nightshift/host-process';

/** What the host process may read, and the jail around it. */

/** A layer between uploaded code and the machine. */
export interface SandboxLayer {
  readonly name: 'quickjs' | 'process' | 'permission' | 'bubblewrap';
  readonly holds: boolean;
  /** Why it does not hold. */
  readonly reason?: string;
}

const SELF_TEST_TIMEOUT_MS = 10_000;
const require = createRequire(import.meta.url);
const own = dirname(import.meta.dirname);

export const WASM_FILE = fileURLToPath(import.meta.resolve('@jitl/quickjs-wasmfile-release-sync/wasm'));

/** V8 counts the engine's memory as its own, and collects garbage at each call if less is left. */
const HEAP_FLAGS = ['--max-old-space-size=256', '--expose-gc'];
/** Silences the warnings about the type stripper and about threads under the permission model. */
const QUIET_FLAGS = ['--disable-warning=ExperimentalWarning', '--disable-warning=SecurityWarning'];

const LIBRARY = '@nightshift/host-process';
/** A package of this repository is a link in a folder `node_modules`. */
const LIBRARY_LINK = linkTo(LIBRARY, own);

/** The folders of this package and of the packages that it imports. */
const FOLDERS = [
  own,
  realpathSync(LIBRARY_LINK),
  packageFolder(WASM_FILE),
  packageFolder(require.resolve('@jitl/quickjs-ffi-types', { paths: [dirname(WASM_FILE)] })),
  packageFolder(require.resolve('quickjs-emscripten-core')),
  packageFolder(require.resolve('piscina')),
];

/** Folders of the system that a Node binary may need: the loader and the C and C++ libraries. */
const SYSTEM_FOLDERS = ['/usr', '/lib', '/lib64'];

/** Paths that must be absent in the jail, unless a folder above is below one of them. */
const HIDDEN = ['/etc/passwd', '/proc/1', '/home', '/root', '/tmp', '/var', '/run'];

function packageFolder(file: string): string {
  const folder = dirname(file);
  return existsSync(join(folder, 'package.json')) ? folder : packageFolder(folder);
}

function linkTo(name: string, from: string): string {
  const link = join(from, 'node_modules', name);
  return existsSync(link) ? link : linkTo(name, dirname(from));
}

/** Flags of Node's permission model. Piscina needs threads; nothing may be written, started or loaded as an addon. */
export const PERMISSION_FLAGS: readonly string[] = [
  '--permission',
  '--allow-worker',
  ...[...FOLDERS, LIBRARY_LINK].map((folder) => `--allow-fs-read=${folder}/*`),
];

/** Returns the command of the host process. */
export function hostCommand(threads: number, isJailed: boolean): HostCommand {
  const entry = fileURLToPath(new URL('./child.ts', import.meta.url));
  const nodeArguments = [
    ...PERMISSION_FLAGS,
    ...HEAP_FLAGS,
    ...QUIET_FLAGS,
    entry,
    String(threads),
    WASM_FILE,
  ];
  const node = process.execPath;
  const command = isJailed ? jailed(node, nodeArguments) : { program: node, arguments: nodeArguments };
  return { ...command, env: { TZ: 'UTC' }, cwd: '/' };
}

/** Returns the command of a Node process in the jail: no network, a read-only root of its own files, no other processes. */
export function jailed(
  node: string,
  nodeArguments: readonly string[],
): Pick<HostCommand, 'program' | 'arguments'> {
  const folders = [...SYSTEM_FOLDERS.filter((folder) => existsSync(folder)), dirname(node), ...FOLDERS];
  return {
    program: 'bwrap',
    arguments: [
      ...['--unshare-all', '--unshare-user', '--uid', '65534', '--gid', '65534', '--cap-drop', 'ALL'],
      ...['--die-with-parent', '--new-session', '--clearenv', '--setenv', 'TZ', 'UTC'],
      ...folders.flatMap((folder) => ['--ro-bind', folder, folder]),
      ...['--symlink', realpathSync(LIBRARY_LINK), LIBRARY_LINK],
      ...['--dev', '/dev', '--remount-ro', '/dev', '--remount-ro', '/', '--chdir', '/'],
      ...['--', node, ...nodeArguments],
    ],
  };
}

/** Runs in the jail: tells what a process there can see and write. */
const PROBE = `
const fs = require('node:fs'), os = require('node:os');
const [own, ...hidden] = process.argv.slice(1);
const writable = ['/', '/dev', '/dev/shm', own].filter((folder) => {
  try { fs.writeFileSync(folder + '/nightshift-probe', ''); return true } catch { return false }
});
const visible = hidden.filter((path) => fs.existsSync(path));
const networks = Object.keys(os.networkInterfaces()).filter((name) => name !== 'lo');
const variables = Object.keys(process.env).filter((name) => name !== 'TZ' && name !== 'PWD');
const { resolve } = require('node:module').createRequire(own + '/src/index.ts');
const missing = ['piscina', 'quickjs-emscripten-core', '@jitl/quickjs-wasmfile-release-sync', '${LIBRARY}'].filter((name) => {
  try { return !resolve(name) } catch { return true }
});
console.log(JSON.stringify({ missing, writable, visible, networks, variables, isAlone: process.pid <= 3 }));
`;

/** Tells whether the jail works on this machine, from inside. */
export async function testJail(node: string): Promise<SandboxLayer> {
  const mounted = [...FOLDERS, dirname(node)];
  const hidden = HIDDEN.filter((path) => !mounted.some((folder) => folder.startsWith(`${path}/`)));
  const { program, arguments: args } = jailed(node, ['-e', PROBE, '--', own, ...hidden]);
  try {
    const { stdout } = await promisify(execFile)(program, args, { env: {}, timeout: SELF_TEST_TIMEOUT_MS });
    const seen = JSON.parse(stdout) as Record<string, unknown>;
    const holes = Object.entries(seen).filter(([, value]) =>
      Array.isArray(value) ? value.length > 0 : value !== true,
    );
    if (holes.length === 0) return { name: 'bubblewrap', holds: true };
    return {
      name: 'bubblewrap',
      holds: false,
      reason: `the self-test found ${JSON.stringify(Object.fromEntries(holes))}`,
    };
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    const [line = ''] = (error as { stderr?: string }).stderr?.split('\n') ?? [];
    const reason = isMissing ? 'bwrap is not installed' : `bwrap does not run: ${line || String(error)}`;
    return { name: 'bubblewrap', holds: false, reason };
  }
}
