import type { BlockView } from '../../src/model/block.ts';

/** Makes a block with defaults for the rest. */
export function makeBlock(label: string, value: string, rest: Partial<BlockView> = {}): BlockView {
  return {
    block_id: `00000000-0000-4000-8000-${Buffer.from(label).toString('hex').padStart(12, '0').slice(-12)}`,
    revision: 3,
    label,
    description: null,
    value,
    char_limit: 100_000,
    read_only: false,
    ...rest,
  };
}
