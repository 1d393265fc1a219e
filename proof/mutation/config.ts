/** What the mutation tester is told. */

/** The safety code, and where its tests are. */
const TESTS: Readonly<Record<string, string>> = {
  'libs/agent-core/src/decide': 'libs/agent-core/test',
  'libs/agent-core/src/machine': 'libs/agent-core/test',
  'libs/agent-core/src/money': 'libs/agent-core/test',
  'apps/worker/src/flows': 'apps/worker/test/flows',
  'apps/worker/src/flow-parts': 'apps/worker/test/flows',
  'apps/worker/src/provider': 'apps/worker/test/provider',
};

export const FOLDERS = Object.keys(TESTS);

/** The folder of the tests for a folder or file, or undefined where the command does not reach. */
export function testsOf(target: string): string | undefined {
  return Object.entries(TESTS).find(([folder]) => target.startsWith(folder))?.[1];
}

/** The lines of the files that are changed: Stryker's patterns. */
function patternOf(target: string): string {
  return /\.ts(:|$)/.test(target) ? target : `${target}/**/*.ts`;
}

/** Stryker's options for the targets of one run, whose reports get `report` as their path without an ending. */
export function strykerConfig(targets: readonly string[], report: string): object {
  return {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    mutate: targets.map(patternOf),
    // The tree is a copy, and its packages link to it: Stryker's own copy would link to the code without mutants.
    inPlace: true,
    vitest: { configFile: 'proof/mutation/vitest.config.ts' },
    // Of the tests that import the changed file, those that reach the mutant.
    coverageAnalysis: 'perTest',
    concurrency: 1,
    // A busy machine must not pass for a mutant that hangs.
    timeoutMS: 60_000,
    timeoutFactor: 3,
    dryRunTimeoutMinutes: 30,
    disableTypeChecks: false,
    allowEmpty: true,
    // The terminal names every mutant that survived, and the score of each file.
    reporters: ['clear-text', 'json', 'html', 'progress-append-only'],
    clearTextReporter: { logTests: false, reportTests: false },
    jsonReporter: { fileName: `${report}.json` },
    htmlReporter: { fileName: `${report}.html` },
    allowConsoleColors: false,
    tempDirName: '.stryker',
  };
}
