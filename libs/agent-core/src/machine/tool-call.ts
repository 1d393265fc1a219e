import type { Machine } from './machine.ts';

/*   pending ─► running ─► succeeded | failed | unknown      (memory tools: pending ─► succeeded | failed)   */

export type ToolCallState = 'pending' | 'running' | 'succeeded' | 'failed' | 'unknown';
export type ToolCallEvent = 'begin' | 'succeed' | 'fail' | 'doubt' | 'rerun';

export const toolCallMachine: Machine<ToolCallState, ToolCallEvent> = {
  name: 'tool call',
  initial: ['pending'],
  states: {
    pending: {
      meaning: 'It is stored with its answer and nobody has begun it.',
      next: 'The run-tool-calls flow, through a run chunk.',
      wakes: 'Its run chunk.',
    },
    running: {
      meaning: 'It has side effects and is journalled as begun; it may or may not have happened.',
      next: 'The worker whose lease the chunk is; after that the worker that takes the chunk over.',
      wakes: 'The end of the lease.',
    },
    succeeded: { meaning: 'It has a result.', next: 'Nobody.', wakes: 'Final.' },
    failed: { meaning: 'It has an error result, which the model reads.', next: 'Nobody.', wakes: 'Final.' },
    unknown: {
      meaning: 'A crash interrupted a call that must not run twice; the model is told so.',
      next: 'Nobody.',
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
