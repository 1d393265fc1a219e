import { InvalidArgumentError, Option, type Command } from 'commander';
import type { UploadBatch } from '@nightshift/client';
import { addOnceFlag, type OnceFlags } from './once.ts';
import { gather, positiveNumber, wholeNumber } from './parse.ts';

/** Flags for the fields of a new batch. */
export interface BatchFlags extends OnceFlags {
  readonly name?: string;
  readonly tag?: readonly string[];
  readonly apply?: 'auto' | 'review';
  readonly maxCostUsd?: number;
  readonly maxOutputTokens?: number;
  readonly pilot?: number;
  readonly pilotThen: 'continue' | 'pause';
  readonly deadline?: string;
  readonly callbackUrl?: string;
}

/** Adds the flags of a new batch to a command. */
export function addBatchFlags(command: Command): Command {
  command
    .option('--name <text>', 'name of the batch')
    .option('--tag <tag>', 'tag of the batch; may be repeated', gather)
    .addOption(
      new Option('--apply <mode>', 'review: memory writes are held until accepted').choices([
        'auto',
        'review',
      ]),
    )
    .option('--max-cost-usd <dollars>', 'most that all runs together may cost', positiveNumber)
    .option('--max-output-tokens <count>', 'most tokens of all answers together', wholeNumber())
    .option('--pilot <runs>', 'so many runs go first, alone', wholeNumber())
    .addOption(
      new Option('--pilot-then <step>', 'after the pilot: continue, or pause until a resume')
        .choices(['continue', 'pause'])
        .default('continue'),
    )
    .option('--deadline <time>', 'latest deadline of all runs, such as 2026-12-01T06:00:00Z', moment)
    .option('--callback-url <url>', 'address that is told of the end');
  return addOnceFlag(command, 'batch');
}

/** Returns the fields of a batch that flags set. */
export function batchFieldsOf(flags: BatchFlags): UploadBatch {
  return {
    ...(flags.name !== undefined && { name: flags.name }),
    ...(flags.tag !== undefined && { tags: [...flags.tag] }),
    ...(flags.apply !== undefined && { apply: flags.apply }),
    ...(flags.maxCostUsd !== undefined && { max_cost_usd: flags.maxCostUsd }),
    ...(flags.maxOutputTokens !== undefined && { max_output_tokens: flags.maxOutputTokens }),
    ...(flags.pilot !== undefined && { pilot: { runs: flags.pilot, then: flags.pilotThen } }),
    ...(flags.deadline !== undefined && { deadline: flags.deadline }),
    ...(flags.callbackUrl !== undefined && { callback_url: flags.callbackUrl }),
  };
}

function moment(text: string): string {
  const time = new Date(text);
  if (Number.isNaN(time.getTime()))
    throw new InvalidArgumentError('Give a time such as 2026-12-01T06:00:00Z.');
  return time.toISOString();
}
