import { defineConfig } from 'vitest/config';
import { ClosingLineReporter } from './test/reporter.ts';
import { Sequencer } from './test/sequencer.ts';

export default defineConfig({
  test: {
    exclude: ['**/node_modules/**', 'test/fixtures/**'],
    globalSetup: ['./test/global-setup.ts'],
    reporters: ['default', new ClosingLineReporter()],
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: Sequencer },
    projects: [
      // Tests of what is pure leave nothing behind: a process serves one after the other.
      {
        extends: true,
        test: { name: 'core', include: ['libs/agent-core/test/**/*.test.ts'], isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'rest',
          include: ['{apps,libs}/*/test/**/*.test.ts', 'test/**/*.test.ts', 'bench/test/**/*.test.ts'],
          exclude: ['libs/agent-core/**'],
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
