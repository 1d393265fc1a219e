import type { Machine } from './machine.ts';

/*   pending ─► running ─► succeeded | failed | unknown      (memory tools: pending ─► succeeded | failed)   */

export type ToolCallState = 'pending' | 'running' | 'succeeded' | 'failed' | 'unknown';
export type ToolCallEvent = 'begin' | 'succeed' | 'fail' | 'doubt' | 'rerun';

export const toolCallMachine: Machine<ToolCallState, ToolCallEvent> = {
  name: 'tool call',
  initial: ['pending'],
  states: {
    pending: {
      meaning: 'It is stored with its answer, and has not started.',
      next: 'The run-tool-calls flow, through a run chunk.',
      wakes: 'Its run chunk.',
    },
    running: {
      meaning: 'It has side effects, and its start is stored. It may or may not have happened.',
      next: 'The worker that holds the lease of the chunk. After the lease: the worker that takes the chunk over.',
      wakes: 'The end of the lease.',
    },
    succeeded: { meaning: 'It has a result.', next: 'No action.', wakes: 'Final.' },
    failed: { meaning: 'It has an error result. The model reads it.', next: 'No action.', wakes: 'Final.' },
    unknown: {
      meaning: 'A crash interrupted a call that must not run twice. The model is told so.',
      next: 'No action.',
      wakes: 'Final.',
    },
  },
  events: {
    begin: { from: ['pending'], to: 'running' },
    rerun: { from: ['running'], to: 'running' },
    succeed: { from: ['pending', 'running'], to: 'succeeded' },
    fail: { from: ['pending', 'running'], to: 'failed' },
    doubt: { from: ['running'], to: 'unknown' },
  },
};

export const TOOL_CALL_STATES = Object.keys(toolCallMachine.states) as ToolCallState[];
