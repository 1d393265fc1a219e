import type { BatchRetry } from '@nightshift/client';
import { Option } from 'commander';
import { gatherList } from './parse.ts';

type State = NonNullable<BatchRetry['states']>[number];
type Reason = NonNullable<BatchRetry['ended_reasons']>[number];

/** Flags that choose ended runs of a batch. */
export interface ChoiceFlags {
  readonly state?: readonly State[];
  readonly endedReason?: readonly Reason[];
  readonly errorGroup?: string;
}

/** Returns the flags that choose ended runs. */
export function choiceOptions(): Option[] {
  return [
    new Option(
      '--state <state>',
      'completed, failed, expired or cancelled; several with commas between',
    ).argParser(gatherList),
    new Option('--ended-reason <reason>', 'exact reason, such as max_steps').argParser(gatherList),
    new Option('--error-group <group>', 'a group of nightshift errors'),
  ];
}
