import { listOf, STOP_REASONS } from '@nightshift/agent-core';
import { z } from 'zod';
import { shownId, wireId } from './ids.ts';
import { shownTime } from './moment.ts';
import { FAILED_RUN, FAILURES } from './examples/batches.ts';

/** Most runs named in one request. */
export const RUN_IDS_MAX = 10_000;

/** The id of a group of failures. */
const ERROR_GROUP = /^[0-9a-f]{32}$/;
export const errorGroup = z
  .string()
  .regex(ERROR_GROUP, 'must be an error_group of GET /v1/batches/{job_id}/errors');
const shownErrorGroup = z.string().meta({ pattern: ERROR_GROUP.source });

const FAILED_STATES = ['failed', 'expired', 'cancelled'] as const;
/** States of runs that have ended. */
export const ENDED_STATES = ['completed', ...FAILED_STATES] as const;

/** The fields of a retry that choose runs. */
export const retryChoice = {
  states: listOf(z.enum(ENDED_STATES), 10)
    .min(1, 'must not be empty')
    .nullish()
    .describe('States of the runs.'),
  ended_reasons: listOf(z.enum(STOP_REASONS), 100)
    .min(1, 'must not be empty')
    .nullish()
    .describe('Stop reasons of the runs, such as `max_steps`.'),
  error_group: errorGroup.nullish().describe('A group of GET /v1/batches/{job_id}/errors.'),
  run_ids: listOf(wireId('run'), RUN_IDS_MAX)
    .min(1, 'must not be empty')
    .nullish()
    .describe('Ended runs of the batch.'),
};

const failureGroup = z
  .object({
    error_group: shownErrorGroup.describe('The same for messages that differ in ids and numbers alone.'),
    stop_reason: z.enum(STOP_REASONS),
    runs: z.int().describe('Ended runs.'),
    retrying: z.int().describe('Open runs whose last attempt failed so, and that are tried again.'),
    first_failed_at: shownTime.nullable().describe('Null without ended runs.'),
    last_failed_at: shownTime.nullable(),
    samples: z
      .array(
        z
          .object({
            run_id: shownId('run'),
            custom_id: z.string().nullable(),
            message: z.string().nullable(),
          })
          .meta({ id: 'FailureSample' }),
      )
      .describe('At most three runs.'),
  })
  .meta({ id: 'FailureGroup' });

export const failureGroups = z
  .object({
    runs: z.int().describe('Runs that failed, expired or were cancelled.'),
    groups_total: z.int(),
    groups: z.array(failureGroup).describe('The largest groups first.'),
  })
  .meta({ id: 'FailureGroups', examples: [FAILURES] });
export type FailureGroupsResponse = z.output<typeof failureGroups>;

export const failedRun = z
  .object({
    run_id: shownId('run'),
    batch_id: shownId('job'),
    agent_id: shownId('agent'),
    custom_id: z.string().nullable(),
    failed_at: shownTime,
    state: z.enum(FAILED_STATES),
    stop_reason: z.enum(STOP_REASONS),
    message: z.string().nullable().describe('The first 2,000 characters.'),
    error_group: shownErrorGroup,
  })
  .meta({ id: 'FailedRun', examples: [FAILED_RUN] });
