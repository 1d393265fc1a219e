import { defineConfig } from 'vitest/config';

/** Tests for the mutants of `npm run mutate`: those of a folder, or one file. */
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
