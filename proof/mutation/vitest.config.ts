import { defineConfig } from 'vitest/config';

/** The tests that look at mutants, which `npm run mutate` names: those of a folder, or of one file. */
const tests = process.env.NIGHTSHIFT_MUTATION_TESTS ?? '';

export default defineConfig({
  test: {
    include: [tests.endsWith('.test.ts') ? tests : `${tests}/**/*.test.ts`],
    globalSetup: ['./test/global-setup.ts'],
    pool: 'forks',
    isolate: !tests.startsWith('libs/agent-core'),
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
