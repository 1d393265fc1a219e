import { join } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const root = join(import.meta.dirname, '..');

/**
 * Short files with long tests. Without earlier times, as in CI, vitest starts with the largest files and would end with these,
 * the last alone on a core.
 */
export const FIRST = [
  'test/proof/sabotage.test.ts',
  'test/proof/killpoints.test.ts',
  'test/stack/clocks.test.ts',
  'test/stack/signals.test.ts',
  'test/stack/queues.test.ts',
];

/** Starts with {@link FIRST}; the others keep vitest's order. */
export class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const first = new Set(FIRST.map((file) => join(root, file)));
    const isFirst = ({ moduleId }: TestSpecification): number => Number(first.has(moduleId));
    return (await super.sort(files)).sort((a, b) => isFirst(b) - isFirst(a));
  }
}
