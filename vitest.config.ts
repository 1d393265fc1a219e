import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { ClosingLineReporter } from './test/reporter.ts';
import { Sequencer } from './test/sequencer.ts';

/** Compares the statements that the other tests have run with their row types. */
const ROW_TYPES = 'libs/db/test/row-types/row-types.test.ts';

/** Files whose tests leave nothing behind in their process. */
const SHARED = [
  'libs/{agent-core,client,db,egress,intake}/test/**/*.test.ts',
  'apps/{api,cli,simulator}/test/**/*.test.ts',
  'apps/worker/test/{callbacks,flows,leases,provider,queues,tools}/**/*.test.ts',
];

const RECORD = ['./test/record-statements.ts'];

/** Where these statements are recorded. */
const STATEMENTS = { NIGHTSHIFT_STATEMENTS: join(tmpdir(), `nightshift-statements-${process.pid}`) };

export default defineConfig({
  test: {
    exclude: ['**/node_modules/**', 'test/fixtures/**'],
    env: STATEMENTS,
    globalSetup: ['./test/global-setup.ts'],
    reporters: ['default', new ClosingLineReporter()],
    pool: 'forks',
    // A third fills the waits of two on two cores.
    maxWorkers: 3,
    sequence: { sequencer: Sequencer },
    projects: [
      // Their files leave nothing behind in their process: it serves one after the other, and imports the code once.
      {
        extends: true,
        test: { name: 'shared', include: SHARED, exclude: [ROW_TYPES], isolate: false, setupFiles: RECORD },
      },
      {
        extends: true,
        test: {
          name: 'rest',
          include: ['{apps,libs}/*/test/**/*.test.ts', 'test/**/*.test.ts', 'bench/test/**/*.test.ts'],
          exclude: [...SHARED, ROW_TYPES],
          setupFiles: RECORD,
        },
      },
      {
        test: {
          name: 'after',
          include: [ROW_TYPES],
          env: STATEMENTS,
          testTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    // They catch what hangs alone: what works may take as long as a busy machine makes it.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // What is waited for comes when the machine gets to it; the default of a second fails where it is busy.
    expect: { poll: { timeout: 15_000 } },
    coverage: { provider: 'v8', include: ['{apps,libs}/*/src/**/*.ts'], reportsDirectory: 'coverage' },
  },
});
