import { PROMPT_PARTS } from '@nightshift/agent-core';
import { INEXACT_REASONS } from '@nightshift/intake';
import { z } from 'zod';
import { RUN_ID, STEP_ID } from './examples/ids.ts';
import { shownId } from './ids.ts';
import { shownTime } from './moment.ts';

const promptPart = z
  .object({
    part: z
      .enum(PROMPT_PARTS)
      .meta({ id: 'PromptPartName' })
      .describe(
        '`system`: the system prompt with rules and instructions. `summary`: of messages that are no longer shown.',
      ),
    bytes: z.int(),
    tokens: z
      .int()
      .nullable()
      .describe(
        'The billed tokens of the prompt, apportioned to its parts by their bytes; an image counts 1,600. Null without an answer.',
      ),
    cache_read_tokens: z
      .int()
      .nullable()
      .describe("Of these, read from the provider's cache, which holds beginnings of prompts."),
    cache_write_tokens: z.int().nullable().describe('Of these, written to the cache.'),
  })
  .meta({ id: 'PromptPart' });

/** The request of a step on the wire. */
export const stepRequest = z
  .object({
    id: shownId('step'),
    run_id: shownId('run'),
    model: z.string().describe("The provider's name."),
    sent_at: shownTime.nullable().describe('Null while it waits to be sent.'),
    is_exact: z
      .boolean()
      .describe('True if `request` has the bytes that were sent, as this release builds requests.'),
    inexact_because: z
      .array(z.enum(INEXACT_REASONS).meta({ id: 'InexactReason' }))
      .describe(
        '`not_sent`: it may still get fewer tokens or become a request for a summary, and has no cache marks yet. ' +
          '`cache_marks_not_kept`: sent by an earlier release; cache marks are left out. `conversation_reset`: the ' +
          'conversation was reset since, so the memory counts no earlier messages. `labels_not_kept`: sent by an earlier ' +
          'release; blocks have their present labels.',
      ),
    bytes: z.int().describe('Of `request`.'),
    sha256: z.string().describe('Of `request`.'),
    tokens: z
      .int()
      .nullable()
      .describe('Billed tokens of the prompt, cached or not; null without an answer.'),
    parts: z.array(promptPart).describe('In the order in which the provider reads them.'),
    request: z
      .record(z.string(), z.unknown())
      .describe("The `params` of the provider's message batch, with their bytes as sent."),
  })
  .meta({
    id: 'StepRequest',
    examples: [
      {
        id: STEP_ID,
        run_id: RUN_ID,
        model: 'claude-haiku-4-5',
        sent_at: '2026-11-30T02:00:20.000Z',
        is_exact: true,
        inexact_because: [],
        bytes: 207,
        sha256: '35035ebf6dcd7419d8525b0388f206c722f682f7360148beeff06efff28ea6da',
        tokens: 40,
        parts: [
          { part: 'tools', bytes: 0, tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 },
          { part: 'system', bytes: 64, tokens: 19, cache_read_tokens: 0, cache_write_tokens: 0 },
          { part: 'memory', bytes: 0, tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 },
          { part: 'summary', bytes: 0, tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 },
          { part: 'messages', bytes: 72, tokens: 21, cache_read_tokens: 0, cache_write_tokens: 0 },
        ],
        request: {
          model: 'claude-haiku-4-5',
          max_tokens: 4096,
          system: [{ type: 'text', text: 'You keep what is known about a customer.' }],
          messages: [{ role: 'user', content: [{ type: 'text', text: 'Sort ticket 1004.' }] }],
        },
      },
    ],
  });
