import { defineConfig } from 'vitest/config';

/** The tests that look at mutants: those of one folder, which `npm run mutate` names. */
const tests = process.env.NIGHTSHIFT_MUTATION_TESTS ?? '';

export default defineConfig({
  test: {
    include: [`${tests}/**/*.test.ts`],
    globalSetup: ['./test/global-setup.ts'],
    pool: 'forks',
    isolate: !tests.startsWith('libs/agent-core'),
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
