import { z } from 'zod';

/** A message of an agent or run: Letta's union, told apart by `message_type`. */
export const lettaMessage = z
  .looseObject({
    id: z.string(),
    message_type: z.string(),
    date: z.string(),
    name: z.string().nullable(),
    otid: z.string().nullable(),
    run_id: z.string().nullable(),
    step_id: z.string().nullable(),
  })
  .meta({ id: 'LettaMessage' });

/** A message of a batch: Letta's internal form, told apart by `role`. */
export const internalMessage = z
  .looseObject({
    id: z.string(),
    role: z.string(),
    agent_id: z.string(),
    content: z.array(z.unknown()).readonly(),
    tool_calls: z.array(z.unknown()).readonly().nullable(),
    tool_call_id: z.string().nullable(),
    tool_returns: z.array(z.unknown()).readonly(),
    batch_item_id: z.string().nullable(),
    custom_id: z.string().nullable().describe("The caller's name for the request. Beyond Letta."),
    run_id: z.string().nullable(),
    step_id: z.string().nullable(),
    otid: z.string().nullable(),
    created_at: z.string(),
  })
  .meta({ id: 'InternalMessage' });
