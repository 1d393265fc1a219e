import { BATCH_TOOLS } from './batch-tools.ts';
import { BATCH_WRITING_TOOLS } from './batch-writing-tools.ts';
import { HOUSE_TOOLS } from './house-tools.ts';
import { MEMORY_WRITING_TOOLS } from './memory-writing-tools.ts';
import type { Tool } from './tool.ts';

/** Every tool, in the order of the list. */
export const TOOLS: readonly Tool[] = [
  ...BATCH_TOOLS,
  ...HOUSE_TOOLS,
  ...BATCH_WRITING_TOOLS,
  ...MEMORY_WRITING_TOOLS,
];
