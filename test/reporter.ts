import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule, TestRunEndReason } from 'vitest/node';

/** The counts of a run. Any fault of a red run counts as failed, so `failed` is 0 only for a green run. */
export interface TestCounts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Returns the last line, which any CI can parse. */
export function closingLine({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/**
 * Prints the reasons for skipped tests and the closing line, after all other reporters. With NIGHTSHIFT_TEST_COUNTS it also
 * writes the counts to that file, for a runner with further checks.
 */
export class ClosingLineReporter implements Reporter {
  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly unknown[],
    reason: TestRunEndReason,
  ): void {
    for (const reason of skipReasons(modules)) process.stdout.write(`skipped: ${reason}\n`);
    const counts = countTests(modules, unhandledErrors.length, reason);
    const file = process.env.NIGHTSHIFT_TEST_COUNTS;
    if (file !== undefined) writeFileSync(file, JSON.stringify(counts));
    else process.stdout.write(`${closingLine(counts)}\n`);
  }
}

function countTests(
  modules: readonly TestModule[],
  unhandledErrors: number,
  reason: TestRunEndReason,
): TestCounts {
  const counts = { passed: 0, failed: unhandledErrors, skipped: 0, pending: 0 };
  for (const module of modules) {
    // A file that does not load, or a throwing hook: its tests are reported as skipped or not at all.
    if (module.errors().length > 0) counts.failed += 1;
    for (const suite of module.children.allSuites()) if (suite.errors().length > 0) counts.failed += 1;
    for (const test of module.children.allTests()) counts[test.result().state] += 1;
  }
  const { pending, ...ended } = counts;
  // A red run never looks green, even for vitest's other complaints (an empty file, Ctrl-C).
  const failed = ended.failed + pending;
  return { ...ended, failed: failed === 0 && reason !== 'passed' ? 1 : failed };
}

function skipReasons(modules: readonly TestModule[]): string[] {
  return modules.flatMap((module) =>
    [...module.children.allTests('skipped')].flatMap((test) => {
      const result = test.result();
      // Tests without a reason were excluded by a filter.
      if (result.state !== 'skipped' || result.note === undefined) return [];
      return [`${module.relativeModuleId} > ${test.fullName}: ${result.note}`];
    }),
  );
}
