import { join } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const root = join(import.meta.dirname, '..');

/**
 * Short files of long tests. Without the times of an earlier run, which CI has not, vitest begins with the largest files and
 * ends with these, the last of them beside an idle core.
 */
export const FIRST = [
  'test/proof/sabotage.test.ts',
  'test/proof/killpoints.test.ts',
  'test/stack/clocks.test.ts',
  'test/stack/signals.test.ts',
  'test/stack/queues.test.ts',
];

/** Begins with {@link FIRST}; the others follow in the order of vitest. */
export class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const first = new Set(FIRST.map((file) => join(root, file)));
    const isFirst = ({ moduleId }: TestSpecification): number => Number(first.has(moduleId));
    return (await super.sort(files)).sort((a, b) => isFirst(b) - isFirst(a));
  }
}
