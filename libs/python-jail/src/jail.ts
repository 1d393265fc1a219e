import { existsSync, lstatSync, readlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Interpreter } from './interpreter.ts';
import { readInside } from './read-inside.ts';

/** A jail for processes of one interpreter. */
export interface Jail {
  readonly interpreter: Interpreter;
  /** Arguments of bwrap before the command of the process. */
  readonly arguments: readonly string[];
  /** The filter of system calls, which bwrap reads from {@link FILTER_DESCRIPTOR}. */
  readonly filter: Buffer;
}

/** A program of the folder `inside`. */
export type InsideProgram = 'call' | 'inspect_source' | 'probe';

/** Address space of a process, which leaves bwrap its part of 256 MB. Unit: bytes. */
export const MEMORY_BYTES = 240 * 1024 * 1024;
/** Descriptor of the filter; bwrap closes it. */
export const FILTER_DESCRIPTOR = 4;

const TIME_ZONES = '/usr/share/zoneinfo';
/** Where systems have the loader of programs: folders, or links into /usr. */
const LOADER_FOLDERS = ['/lib', '/lib64'];
/** Folders of installed packages in the standard library's folder. */
const PACKAGE_FOLDERS = ['site-packages', 'dist-packages'];

const START = readInside('start');
const PROGRAMS: Readonly<Record<InsideProgram, string>> = {
  call: START + readInside('call'),
  inspect_source: START + readInside('inspect_source'),
  probe: START + readInside('probe'),
};

/** Returns the folders that processes of the jail may read. */
export function foldersOf({ stdlib, libraries }: Interpreter): readonly string[] {
  const loaders = LOADER_FOLDERS.flatMap((folder) => {
    const link = linkOf(folder);
    if (link === undefined) return existsSync(folder) ? [folder] : [];
    // On Debian, /lib64 leads to a folder of its own; /lib leads to all libraries, of which a part is listed.
    return folder === '/lib64' ? [join('/', link)] : [];
  });
  return [...new Set([...stdlib, ...libraries, ...loaders, TIME_ZONES])].filter((folder) =>
    existsSync(folder),
  );
}

/** Describes a jail: no network, no other processes, no variables, and nothing to write to. */
export function createJail(interpreter: Interpreter, filter: Buffer): Jail {
  const { executable, stdlib, libraries } = interpreter;
  const links = LOADER_FOLDERS.flatMap((folder) => {
    const link = linkOf(folder);
    return link === undefined ? [] : ['--symlink', link, folder];
  });
  const packages = stdlib
    .flatMap((folder) => PACKAGE_FOLDERS.map((name) => join(folder, name)))
    .filter((folder) => existsSync(folder));
  return {
    interpreter,
    filter,
    arguments: [
      ...['--unshare-all', '--unshare-user', '--uid', '65534', '--gid', '65534', '--cap-drop', 'ALL'],
      ...['--die-with-parent', '--new-session', '--seccomp', String(FILTER_DESCRIPTOR)],
      ...['--clearenv', '--setenv', 'PYTHONHASHSEED', '0'],
      ...['--setenv', 'LD_LIBRARY_PATH', libraries.join(':')],
      ...foldersOf(interpreter).flatMap((folder) => ['--ro-bind', folder, folder]),
      ...packages.flatMap((folder) => ['--tmpfs', folder, '--remount-ro', folder]),
      ...['--ro-bind', executable, executable, ...links],
      ...['--dev-bind', '/dev/null', '/dev/null', '--dev-bind', '/dev/urandom', '/dev/urandom'],
      ...['--remount-ro', '/', '--chdir', '/', '--'],
    ],
  };
}

/** Returns the arguments of bwrap for a program. `cpuSeconds`: CPU time after which the kernel ends the process. */
export function commandOf(jail: Jail, program: InsideProgram, cpuSeconds: number): readonly string[] {
  const { executable } = jail.interpreter;
  const limits = [String(MEMORY_BYTES), String(cpuSeconds)];
  return [
    ...jail.arguments,
    executable,
    ...['-s', '-S', '-B', '-X', 'utf8', '-c', PROGRAMS[program], ...limits],
  ];
}

/** Returns the folders at the top of the jail. */
export function topOf(interpreter: Interpreter): readonly string[] {
  const paths = [...foldersOf(interpreter), interpreter.executable, '/dev/null', ...LOADER_FOLDERS];
  return [...new Set(paths.map((path) => path.split('/')[1] ?? ''))];
}

/** Returns folders of the jail that must not be writable. */
export function readOnlyFolders(interpreter: Interpreter): readonly string[] {
  return ['/', '/dev', '/dev/shm', '/tmp', dirname(interpreter.executable), ...foldersOf(interpreter)];
}

function linkOf(folder: string): string | undefined {
  return existsSync(folder) && lstatSync(folder).isSymbolicLink() ? readlinkSync(folder) : undefined;
}
