import {
  BLOCK_CHAR_LIMIT_DEFAULT,
  CONFLICT_POLICIES,
  CONFLICT_POLICY_DEFAULT,
  listOf,
} from '@nightshift/agent-core';
import { z } from 'zod';
import { shownId } from './ids.ts';
import { answered, ignored } from './ignored.ts';
import { storedName, trimmedName } from './text.ts';
import { BLOCK } from './examples/agents.ts';

export const label = trimmedName(100);
const charLimit = z.int().min(1).max(2_000_000_000);
const metadata = z.record(z.string(), z.unknown());
const tags = listOf(storedName(255), 100);

/** A block in a request; `null` counts as absent. Fields unknown to Letta are refused. */
export const blockInput = z
  .strictObject({
    label,
    value: z.string().nullish().describe('Text; null is the empty text.'),
    limit: charLimit.nullish().describe(`Most characters of the value; default ${BLOCK_CHAR_LIMIT_DEFAULT}.`),
    description: z.string().nullish(),
    metadata: metadata.nullish(),
    read_only: z.boolean().nullish().describe('True: agents may only read it.'),
    conflict_policy: z
      .enum(CONFLICT_POLICIES)
      .nullish()
      .describe(
        "How an agent's write is handled if the block has changed since the agent's request showed it. `reject`: " +
          'refused, and the agent is told. `last_write`: overwrites the change. `merge`: merges by lines and refuses ' +
          `overlaps. Default ${CONFLICT_POLICY_DEFAULT}. Beyond Letta.`,
      ),
    is_template: z.boolean().nullish(),
    hidden: z.boolean().nullish(),
    tags: tags.nullish(),
    // Clients may send back a whole answer.
    id: answered,
    revision: answered,
    created_by_id: answered,
    last_updated_by_id: answered,
    base_template_id: ignored,
    deployment_id: ignored,
    entity_id: ignored,
    preserve_on_migration: ignored,
    project_id: ignored,
    template_id: ignored,
    template_name: ignored,
  })
  .meta({ id: 'BlockCreate', examples: [{ label: 'human', value: 'Name: Ann.' }] });
export type BlockInput = z.output<typeof blockInput>;

/** A change of a block; `null` and absent fields change nothing. */
export const blockPatch = blockInput
  .partial()
  .extend({
    label: label.nullish(),
    expected_revision: z
      .int()
      .min(1)
      .nullish()
      .describe(
        'Revision that the change is based on; 409 if the block has changed since, unless to what is asked for. Changes of ' +
          'label, metadata, tags, conflict_policy, hidden and is_template make no revision and are not detected. Beyond Letta.',
      ),
  })
  .meta({
    id: 'BlockUpdate',
    examples: [{ value: 'Name: Ann. Moves to Berlin in May.', expected_revision: 1 }],
  });
export type BlockPatch = z.output<typeof blockPatch>;

/** A block on the wire: Letta's fields and the revision. */
export const blockResponse = z
  .object({
    id: shownId('block'),
    label: z.string(),
    value: z.string(),
    limit: z.int(),
    description: z.string().nullable(),
    metadata,
    read_only: z.boolean(),
    conflict_policy: z.enum(CONFLICT_POLICIES).describe('Beyond Letta.'),
    is_template: z.boolean(),
    hidden: z.boolean(),
    tags: z.array(z.string()),
    revision: z.int().describe('Number of writes of this block, from 1. Beyond Letta.'),
    project_id: z.null(),
    template_name: z.null(),
    template_id: z.null(),
    base_template_id: z.null(),
    deployment_id: z.null(),
    entity_id: z.null(),
    preserve_on_migration: z.null(),
    created_by_id: shownId('user'),
    last_updated_by_id: shownId('user'),
  })
  .meta({ id: 'Block', examples: [BLOCK] });
export type BlockResponse = z.output<typeof blockResponse>;
