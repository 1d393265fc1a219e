import type { ToolDefinition } from '../model/tool.ts';

/**
 * True when a call that a crash interrupted may simply run again. A `once` call may not: it becomes `unknown` and the
 * model is told.
 */
export function mayRunAgain(tool: Pick<ToolDefinition, 'side_effects'>): boolean {
  return tool.side_effects !== 'once';
}
