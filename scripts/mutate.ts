// Changes the code of a folder piece by piece and lists the changes that no test notices: `npm run mutate --
// libs/agent-core/src/money`, or some lines of a file: `npm run mutate --
// apps/worker/src/flows/sweep/sweep.ts:10-40`.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { providePostgres } from '../libs/services/src/index.ts';
import { FOLDERS, strykerConfig, testsOf } from '../proof/mutation/config.ts';
import { copyTree } from '../proof/mutation/tree.ts';
import { reasonOf } from './command-line.ts';
import { installOwnPackages } from './own-packages.ts';

const USAGE = `npm run mutate -- <folder or file[:from-to]> ...
Changes the code piece by piece; a test must fail each time.
Takes minutes for a folder of the core, hours for the flows.

Folders: ${FOLDERS.join(', ')}
Reports: .data/mutation/reports

  --tests <folder or file>  run these tests alone: faster, and the score a lower bound (default: those of the folder)
`;
const root = join(import.meta.dirname, '..');
const home = join(root, '.data', 'mutation');
const tree = join(home, `tree-${process.pid}`);
const packages = join(root, 'proof', 'mutation');

const { targets, tests } = readArguments();
installOwnPackages(packages, 'mutation tester');
copyTree(root, tree);
try {
  process.exitCode = await (targets.some((target) => target.startsWith('apps/'))
    ? withPostgres(mutate)
    : mutate('postgres://none'));
} finally {
  rmSync(tree, { recursive: true, force: true });
}

function readArguments(): { readonly targets: readonly string[]; readonly tests: string } {
  const refuse = (reason: string): never => {
    process.stderr.write(`${reason}\n\n${USAGE}`);
    process.exit(2);
  };
  try {
    const { values, positionals } = parseArgs({
      options: { help: { type: 'boolean' }, tests: { type: 'string' } },
      allowPositionals: true,
    });
    if (values.help === true) {
      process.stdout.write(USAGE);
      process.exit(0);
    }
    const folders = positionals.map((each) => each.replace(/\/$/, ''));
    if (folders.length === 0) refuse('Name a folder or a file.');
    for (const target of folders) {
      if (testsOf(target) === undefined) refuse(`${target} is in none of the folders.`);
      if (!existsSync(join(root, target.replace(/:.*/, '')))) refuse(`There is no ${target}.`);
    }
    if (new Set(folders.map(testsOf)).size > 1) refuse('Name folders whose tests are in one folder.');
    return { targets: folders, tests: values.tests ?? testsOf(folders[0] ?? '') ?? '' };
  } catch (error) {
    return refuse(reasonOf(error));
  }
}

/**
 * Runs `work` with the URL of one server: killed tests of a hanging mutant would leave their own servers
 * running.
 */
async function withPostgres(work: (url: string) => Promise<number>): Promise<number> {
  const dataDir = mkdtempSync(join(tmpdir(), 'nightshift-mutation-'));
  const postgres = await providePostgres({
    dataDir,
    durable: false,
    settings: { max_connections: 300 },
    useDocker: false,
    dockerHost: undefined,
  });
  try {
    return await work(postgres.url);
  } finally {
    await postgres.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Runs Stryker in the copied tree, which prints its report. */
async function mutate(postgresUrl: string): Promise<number> {
  mkdirSync(join(home, 'reports'), { recursive: true });
  const report = join(
    home,
    'reports',
    targets
      .join('+')
      .replaceAll(/[^\w.+-]/g, '_')
      .slice(0, 100),
  );
  rmSync(`${report}.json`, { force: true });
  const config = join(tree, '.stryker.json');
  writeFileSync(config, JSON.stringify(strykerConfig(targets, report), null, 2));
  const stryker = spawn(
    process.execPath,
    [join(packages, 'node_modules/@stryker-mutator/core/bin/stryker.js'), 'run', config],
    {
      cwd: tree,
      stdio: 'inherit',
      env: {
        ...process.env,
        NIGHTSHIFT_MUTATION_TESTS: tests,
        // With a URL, the global setup of the tests starts no server. Tests of the core need none.
        TEST_DATABASE_URL: postgresUrl,
      },
    },
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stryker.kill(signal));
  const [code] = (await once(stryker, 'exit')) as [number | null];
  // Without a report, no mutant was made.
  if (code === 0 && !existsSync(`${report}.json`)) return 1;
  return code ?? 1;
}
