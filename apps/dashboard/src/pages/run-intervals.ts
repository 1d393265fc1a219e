import type { RunTimeline, Step } from '@nightshift/client';
import { nameOfStep } from './run-steps.ts';

/** A part of the time of a run. */
export interface Interval {
  readonly key: string;
  readonly name: string;
  readonly kind: 'wait' | 'provider' | 'tools' | 'caller';
  readonly from: number;
  /** Null while it goes on. */
  readonly to: number | null;
  readonly isFailed: boolean;
}

/** Shorter waits are left out. Unit: milliseconds. */
const SHORTEST = 50;

const KINDS: Readonly<
  Record<RunTimeline['intervals'][number]['kind'], readonly [name: string, kind: Interval['kind']]>
> = {
  queued: ['Queued', 'wait'],
  gathering: ['Gathering', 'wait'],
  at_provider: ['At the provider', 'provider'],
  ingest: ['Results', 'wait'],
  tools: ['Tools', 'tools'],
  waiting_for_caller: ['Caller', 'caller'],
  retry: ['Retry', 'wait'],
};

/** Returns the steps and waits of a run in order. Unit: milliseconds since 1970. */
export function intervalsOf({ intervals }: RunTimeline, steps: readonly Step[]): readonly Interval[] {
  const byId = new Map(steps.map((step) => [step.id, step]));
  return intervals
    .map(({ kind, from, to, step_id }, place): Interval => {
      const step = kind === 'at_provider' ? byId.get(step_id ?? '') : undefined;
      const [name, look] = KINDS[kind];
      return {
        key: `${place}`,
        name: step === undefined ? name : nameOfStep(step),
        kind: look,
        from: Date.parse(from),
        to: to === null ? null : Date.parse(to),
        isFailed: step !== undefined && step.error_type !== null,
      };
    })
    .filter(({ from, to }) => to === null || to - from >= SHORTEST);
}
