/** Configures the mutation tester. */

/** Folders of the safety code, and of their tests. */
const TESTS: Readonly<Record<string, string>> = {
  'libs/agent-core/src/decide': 'libs/agent-core/test',
  'libs/agent-core/src/machine': 'libs/agent-core/test',
  'libs/agent-core/src/money': 'libs/agent-core/test',
  'apps/worker/src/flows': 'apps/worker/test/flows',
  'apps/worker/src/flow-parts': 'apps/worker/test/flows',
  'apps/worker/src/provider': 'apps/worker/test/provider',
};

export const FOLDERS = Object.keys(TESTS);

/** Finds the test folder of a folder or file. Returns undefined outside of {@link FOLDERS}. */
export function testsOf(target: string): string | undefined {
  return Object.entries(TESTS).find(([folder]) => target.startsWith(folder))?.[1];
}

/** Turns a target into Stryker's pattern. */
function patternOf(target: string): string {
  return /\.ts(:|$)/.test(target) ? target : `${target}/**/*.ts`;
}

/** Builds Stryker's options. `report`: path of the reports without their file ending. */
export function strykerConfig(targets: readonly string[], report: string): object {
  return {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    mutate: targets.map(patternOf),
    // Stryker's own copy would link the packages to the code without mutants.
    inPlace: true,
    vitest: { configFile: 'proof/mutation/vitest.config.ts' },
    // Runs the tests that reach the mutant.
    coverageAnalysis: 'perTest',
    concurrency: 1,
    // A loaded machine must not make a mutant count as hanging.
    timeoutMS: 60_000,
    timeoutFactor: 3,
    dryRunTimeoutMinutes: 30,
    disableTypeChecks: false,
    allowEmpty: true,
    // The terminal lists every surviving mutant and the score of each file.
    reporters: ['clear-text', 'json', 'html', 'progress-append-only'],
    clearTextReporter: { logTests: false, reportTests: false },
    jsonReporter: { fileName: `${report}.json` },
    htmlReporter: { fileName: `${report}.html` },
    allowConsoleColors: false,
    tempDirName: '.stryker',
  };
}
