import { diff3MergeRegions, diffIndices } from 'node-diff3';
import type { Diff3 } from '../../src/memory/merge.ts';

/** The library that production hands to the core. */
export const diff3: Diff3 = { diff3MergeRegions, diffIndices };
