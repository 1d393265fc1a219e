/** Ids of the examples, which show one agent, its night batch, and a run of it. */
export const AGENT_ID = 'agent-0199d2a4-8f3e-7c1b-9a55-3d2f6b7c8e90';
export const CONVERSATION_ID = 'conversation-0199d2a4-8f3e-7c1b-9a56-3d2f00000000';
export const INPUT_ID = 'message-0199d2a4-8f3e-7c1b-9a56-3d2f00000080';
export const ANSWER_ID = 'message-0199d2a4-8f3e-7c1b-9a56-3d2f00000100';
export const BLOCK_ID = 'block-0199d2a4-8f3f-7a02-8c11-2b3c4d5e6f70';
export const DRAFT_ID = 'block-0199d2a5-1c40-7b13-9d22-3c4d5e6f7081';
export const TOOL_ID = 'tool-0199d2a0-0b1c-7e24-8e33-4d5e6f708192';
export const SCHEDULE_ID = 'schedule-0199d2a4-9000-7f35-9f44-5e6f708192a3';
export const BATCH_ID = 'job-0199d2a5-1c20-7d46-8a55-6f708192a3b4';
export const WORKER_ID = 'worker-3b9f2c1e-5a70-4f5e-8d21-708192a3b4c5';
export const RUN_ID = 'run-0199d2a5-1c21-7e57-9b66-708192000000';
export const STEP_ID = 'step-0199d2a5-1c21-7e57-9b66-708192000101';
export const BATCH_ITEM_ID = 'batch_item-0199d2a5-1c21-7e57-9b66-708192000000';
export const USER_ID = 'user-00000000-0000-4000-8000-000000000000';
export const ERROR_GROUP = '8d5e957f297893487bd98fa830fa6413';
