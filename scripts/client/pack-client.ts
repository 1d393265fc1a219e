import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const root = join(import.meta.dirname, '../..');
const library = join(root, 'libs/client');

const packed = z.tuple([z.object({ filename: z.string(), size: z.number(), unpackedSize: z.number() })]);

/** A packed client. */
export interface PackedClient {
  /** Path of the `.tgz`. */
  readonly file: string;
  /** Bytes of the `.tgz`. */
  readonly size: number;
  readonly unpackedSize: number;
}

/**
 * Builds `@nightshift/client` as JavaScript with types, and packs it. `directory` is emptied first; it holds the package
 * as `package`, and the `.tgz`.
 * Throws: the output of the compiler, or of npm.
 */
export function packClient(directory: string): PackedClient {
  rmSync(directory, { recursive: true, force: true });
  const target = join(directory, 'package');
  mkdirSync(target, { recursive: true });
  const config = join(library, 'pack.tsconfig.json');
  run(process.execPath, [
    join(root, 'node_modules/.bin/tsc'),
    '-p',
    config,
    '--outDir',
    join(target, 'dist'),
  ]);
  for (const path of globSync('**/*.d.ts', { cwd: join(target, 'dist') }))
    toJsImports(join(target, 'dist', path));
  cpSync(join(library, 'README.md'), join(target, 'README.md'));
  cpSync(join(root, 'LICENSE'), join(target, 'LICENSE'));
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
  const listed = run('npm', ['pack', target, '--json', '--ignore-scripts', '--pack-destination', directory]);
  const [{ filename, size, unpackedSize }] = packed.parse(JSON.parse(listed));
  return { file: join(directory, filename), size, unpackedSize };
}

/** Names the built files: the compiler leaves `.ts` in the imports of declarations. */
function toJsImports(path: string): void {
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace(/(from |import\()(['"])(\.[^'"]*)\.ts\2/g, '$1$2$3.js$2'));
}

/** Returns the package.json of the package. In the repository the package is its sources. */
function manifest(): object {
  const own = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8')) as Record<string, unknown>;
  const { name, version, type, description, engines } = own;
  return {
    ...{ name, version, description, license: 'MIT', type, engines, sideEffects: false },
    main: './dist/index.js',
    types: './dist/index.d.ts',
    exports: {
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      './package.json': './package.json',
    },
    files: ['dist'],
  };
}

function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')} failed.\n${stdout}${stderr}`, { cause: error });
  return stdout;
}
