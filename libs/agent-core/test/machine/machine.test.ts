import { describe, expect, test } from 'vitest';
import { NightshiftError } from '../../src/base/errors.ts';
import { BATCH_STATES, batchMachine } from '../../src/machine/batch.ts';
import { canTake, terminalStates, transition, type Machine } from '../../src/machine/machine.ts';
import { PROVIDER_BATCH_STATES, providerBatchMachine } from '../../src/machine/provider-batch.ts';
import { ENDED_RUN_STATES, isRunEnded, RUN_STATES, runMachine, STOP_REASONS } from '../../src/machine/run.ts';
import { STEP_STATES, stepMachine } from '../../src/machine/step.ts';
import { TOOL_CALL_STATES, toolCallMachine } from '../../src/machine/tool-call.ts';

/** Every legal transition, written out a second time: `states: event → state`. All others are illegal. */
const LEGAL: Readonly<Record<string, readonly string[]>> = {
  batch: [
    'receiving: accept → running',
    'running: pause → paused',
    'paused: resume → running',
    'receiving running paused: cancel → cancelling',
    'running paused: complete → completed',
    'receiving running paused: fail → failed',
    'cancelling: finish_cancel → cancelled',
  ],
  run: [
    'queued: start → ready',
    'ready: seal → in_flight',
    'in_flight: unseal → ready',
    'in_flight requires_action: act → acting',
    'in_flight: await_caller → requires_action',
    'in_flight acting: continue → ready',
    'in_flight acting: complete → completed',
    'queued ready in_flight acting: fail → failed',
    'queued ready in_flight acting: cancel → cancelled',
    'in_flight: expire → expired',
  ],
  step: [
    'sealed: answer → answered',
    'sealed answered: settle → done',
    'sealed: lose → lost',
    'sealed: error → errored',
    'sealed: expire → expired',
    'sealed: cancel → canceled',
  ],
  'provider batch': [
    'building: write_ahead → submitting',
    'submitting: accept → submitted',
    'submitting: refuse → building',
    'submitting: doubt → unknown',
    'unknown: adopt → submitted',
    'unknown: withdraw → building',
    'submitted cancelling ended: disprove → unknown',
    'building submitting unknown submitted cancelling: reject → rejected',
    'submitted: cancel → cancelling',
    'submitted cancelling: end → ended',
    'ended: ingest → ingested',
  ],
  'tool call': [
    'pending: begin → running',
    'running: rerun → running',
    'pending running: succeed → succeeded',
    'pending running: fail → failed',
    'running: doubt → unknown',
  ],
};

/** Initial states, written out a second time. */
const INITIAL: Readonly<Record<string, readonly string[]>> = {
  batch: ['receiving'],
  run: ['queued'],
  step: ['sealed'],
  'provider batch': ['building', 'orphan_paid'],
  'tool call': ['pending'],
};

const TERMINAL: Readonly<Record<string, readonly string[]>> = {
  batch: ['completed', 'cancelled', 'failed'],
  run: ['completed', 'failed', 'cancelled', 'expired'],
  step: ['done', 'lost', 'errored', 'expired', 'canceled'],
  'provider batch': ['ingested', 'rejected', 'orphan_paid'],
  'tool call': ['succeeded', 'failed', 'unknown'],
};

const machines: readonly Machine<string, string>[] = [
  batchMachine,
  runMachine,
  stepMachine,
  providerBatchMachine,
  toolCallMachine,
];

function legalEdges(name: string): ReadonlyMap<string, string> {
  const edges = (LEGAL[name] ?? []).flatMap((line) => {
    const [, from = '', event = '', to = ''] = /^([\w ]+): (\w+) → (\w+)$/.exec(line) ?? [];
    return from.split(' ').map((state): [string, string] => [`${state} ${event}`, to]);
  });
  return new Map(edges);
}

describe.each(machines)('a $name', (machine) => {
  const states = Object.keys(machine.states);
  const events = Object.keys(machine.events);
  const edges = legalEdges(machine.name);
  const cases = states.flatMap((state) =>
    events.map((event) => ({ state, event, to: edges.get(`${state} ${event}`) })),
  );

  test('has only the events and states of the table of legal transitions', () => {
    const known = [...edges].flatMap(([from, to]) => [...from.split(' '), to]);
    expect(new Set([...known, ...(INITIAL[machine.name] ?? [])])).toEqual(new Set([...states, ...events]));
  });

  test.each(cases.filter(({ to }) => to !== undefined))(
    '$state takes $event and is $to',
    ({ state, event, to }) => {
      expect(canTake(machine, state, event)).toBe(true);
      expect(transition(machine, state, event)).toBe(to);
    },
  );

  test.each(cases.filter(({ to }) => to === undefined))('$state refuses $event', ({ state, event }) => {
    expect(canTake(machine, state, event)).toBe(false);
    expect(() => transition(machine, state, event)).toThrow(
      new NightshiftError(
        'illegal_transition',
        `A ${machine.name} in state '${state}' cannot take '${event}'.`,
      ),
    );
  });

  test('ends where no event leaves, and its docs say so there and only there', () => {
    const ends = TERMINAL[machine.name];
    expect(terminalStates(machine)).toEqual(ends);
    for (const [state, doc] of Object.entries(machine.states)) {
      expect([doc.next, doc.wakes], state).toEqual(
        ends?.includes(state)
          ? ['No action.', 'Final.']
          : [expect.not.stringMatching(/^No action/), expect.not.stringMatching(/Final/)],
      );
    }
  });

  test('documents every state in whole sentences', () => {
    for (const doc of Object.values(machine.states)) {
      for (const text of Object.values(doc)) expect(text).toMatch(/^(?:[A-Z]|next_due_at).*\.$/);
    }
  });

  test('reaches every state from the initial states, and a final state from every state', () => {
    const reachable = (...from: readonly string[]): ReadonlySet<string> => {
      const found = new Set(from);
      for (const state of found) {
        for (const event of events)
          if (canTake(machine, state, event)) found.add(transition(machine, state, event));
      }
      return found;
    };
    expect(machine.initial).toEqual(INITIAL[machine.name]);
    expect(reachable(...machine.initial)).toEqual(new Set(states));
    for (const state of states) {
      expect(
        [...reachable(state)].some((end) => terminalStates(machine).includes(end)),
        state,
      ).toBe(true);
    }
  });
});

describe('lists and predicates', () => {
  test('the lists of states are those of the machines, in their order', () => {
    expect([BATCH_STATES, RUN_STATES, STEP_STATES, PROVIDER_BATCH_STATES, TOOL_CALL_STATES]).toEqual(
      [batchMachine, runMachine, stepMachine, providerBatchMachine, toolCallMachine].map((machine) =>
        Object.keys(machine.states),
      ),
    );
  });

  test('a run has ended exactly when no event can move it', () => {
    expect(RUN_STATES.filter(isRunEnded)).toEqual(terminalStates(runMachine));
    expect(ENDED_RUN_STATES).toEqual(terminalStates(runMachine));
  });

  test('the reasons for which a run stops are distinct', () => {
    expect(new Set(STOP_REASONS).size).toBe(STOP_REASONS.length);
  });
});
