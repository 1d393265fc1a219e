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
  'test/stack/start.test.ts',
  'test/stack/clocks.test.ts',
  'test/stack/signals.test.ts',
  'test/stack/queues.test.ts',
];

/**
 * Starts with {@link FIRST}, and ends with the files that share a process: it lasts while the next file is of the same project.
 * The others keep vitest's order.
 */
export class Sequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const first = new Set(FIRST.map((file) => join(root, file)));
    const rankOf = ({ moduleId, project }: TestSpecification): number =>
      first.has(moduleId) ? 0 : project.config.isolate ? 1 : 2;
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}
