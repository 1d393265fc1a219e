import { fc } from '../../../../test/fast-check.ts';
import { NO_TRAIL } from '../../src/decide/trail.ts';
import { describe, expect, test } from 'vitest';
import { ATTEMPT_MAX } from '../../src/base/ids.ts';
import { PAUSES_MAX } from '../../src/decide/after-stop.ts';
import { decideFinish } from '../../src/decide/finish.ts';
import { billOfOutcome } from '../../src/decide/step-outcome.ts';
import { BATCH_STATES, batchMachine } from '../../src/machine/batch.ts';
import { terminalStates } from '../../src/machine/machine.ts';
import { isRunEnded, RUN_STATES, STOP_REASONS } from '../../src/machine/run.ts';
import { toolUsesOf } from '../../src/model/content.ts';
import { decideLine, RUN_ID } from './facts.ts';
import {
  acceptedRun,
  applyLine,
  cancelRun,
  contentOf,
  customIdOf,
  seal,
  settleCalls,
  shownMessages,
  type Line,
  type RunRow,
} from './fleet.ts';
import { anyOutcome } from './outcomes.ts';
import { flawOf, withNextInput } from './request-flaw.ts';
import { endOf, policy, runFleet, versionsOf, world } from './world.ts';

describe('a fleet of runs, whatever the provider answers', () => {
  test('ends alike in whatever order and however often the lines come', () => {
    fc.assert(
      fc.property(
        world.map((given) => ({ ...given, cancelledAt: null })),
        (given) => {
          expect(endOf(runFleet(given, 'as told'))).toEqual(endOf(runFleet(given, 'in order, once')));
        },
      ),
      { numRuns: 300 },
    );
  });

  test('a set of lines gives the same rows in every order, however often each line comes', () => {
    const set = fc
      .array(fc.tuple(fc.nat(4), fc.constantFrom(1, 2), fc.constantFrom(1, 2), anyOutcome), { maxLength: 12 })
      .map((entries) => {
        // A line for each attempt of each run, attempts that were never sent included.
        const lines = new Map<string, Line>();
        for (const [index, number, attempt, outcome] of entries) {
          const key = { run_id: acceptedRun(index, 3).facts.id, number, attempt };
          lines.set(customIdOf(key), { key, outcome });
        }
        return [...lines.values()];
      });
    const delivered = set.chain((lines) =>
      fc.record({
        once: fc.constant(lines),
        shuffled: fc
          .tuple(
            fc.shuffledSubarray(lines, { minLength: lines.length }),
            lines.length === 0
              ? fc.constant([])
              : fc.array(fc.tuple(fc.nat(), fc.constantFrom(...lines)), { maxLength: 12 }),
          )
          .map(([all, again]) => {
            const mixed = [...all];
            for (const [place, line] of again) mixed.splice(place % (mixed.length + 1), 0, line);
            return mixed;
          }),
      }),
    );
    const inFlight = Array.from({ length: 5 }, (_, index) => seal(acceptedRun(index, 3)));
    const apply = (lines: readonly Line[]): readonly RunRow[] =>
      inFlight.map((row) =>
        lines
          .filter(({ key }) => key.run_id === row.facts.id)
          .reduce((current, line) => applyLine(current, line, policy), row),
      );
    fc.assert(
      fc.property(delivered, ({ once, shuffled }) => {
        expect(apply(shuffled)).toEqual(apply(once));
      }),
      { numRuns: 500 },
    );
  });

  test('no run leaves a final state, whatever lines still come', () => {
    fc.assert(
      fc.property(
        world,
        fc.array(
          fc.tuple(fc.nat(5), fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 9 }), anyOutcome),
        ),
        (given, late) => {
          const history = runFleet(given, 'as told');
          for (const [index, rows] of history.entries()) {
            for (const [place, row] of rows.entries()) {
              const next = history[index + 1]?.[place];
              if (next !== undefined && isRunEnded(row.facts.state)) expect(next).toBe(row);
            }
          }
          for (const row of endOf(history)) {
            expect(STOP_REASONS).toContain(row.stop_reason);
            for (const [, number, attempt, outcome] of late) {
              expect(
                applyLine(row, { key: { run_id: row.facts.id, number, attempt }, outcome }, policy),
              ).toBe(row);
            }
            expect([settleCalls(row), cancelRun(row), seal(row)]).toEqual([row, row, row]);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  test('no run exceeds its step limit, and at most one attempt of a step is applied', () => {
    fc.assert(
      fc.property(world, (given) => {
        for (const { facts, steps } of versionsOf(runFleet(given, 'as told'))) {
          expect(facts.step_number).toBeLessThanOrEqual(facts.max_steps);
          expect(facts.failures).toBeLessThan(policy.attempts_max);
          const applied = steps.filter(({ applies }) => applies).map(({ key }) => key.number);
          expect(new Set(applied).size).toBe(applied.length);
          expect(new Set(steps.map(({ key }) => customIdOf(key))).size).toBe(steps.length);
          expect(steps.filter(({ state }) => state === 'sealed')).toHaveLength(
            facts.state === 'in_flight' ? 1 : 0,
          );
          expect(steps.filter(({ state }) => state === 'answered')).toHaveLength(
            facts.state === 'acting' ? 1 : 0,
          );
        }
      }),
      { numRuns: 200 },
    );
  });

  test('every step before the current step of a run is applied exactly once', () => {
    fc.assert(
      fc.property(world, (given) => {
        for (const { facts, steps } of endOf(runFleet(given, 'as told'))) {
          const applied = new Set(steps.filter(({ applies }) => applies).map(({ key }) => key.number));
          for (let number = 1; number < facts.step_number; number++) expect(applied).toContain(number);
        }
      }),
      { numRuns: 200 },
    );
  });

  test('message numbers have no gap, and the provider accepts every request, also of the next run', () => {
    fc.assert(
      fc.property(world, (given) => {
        for (const row of versionsOf(runFleet(given, 'as told'))) {
          expect(row.messages.map(({ seq }) => seq)).toEqual(row.messages.map((_, index) => index));
          expect(row.facts.last_seq).toBe(row.messages.length - 1);
          const shown = shownMessages(row);
          expect(flawOf(shown)).toBeNull();
          if (isRunEnded(row.facts.state)) expect(flawOf(withNextInput(shown))).toBeNull();
          const last = shown.at(-1);
          if (row.facts.state === 'ready') expect(last?.role === 'user' || last?.paused).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });

  test('every call of an applied answer has exactly one result in the next user message, and no result is invented', () => {
    fc.assert(
      fc.property(world, (given) => {
        for (const { facts, messages } of endOf(runFleet(given, 'as told'))) {
          for (const [index, message] of messages.entries()) {
            const asked = toolUsesOf(contentOf(message.content_json)).map(({ id }) => id);
            const next = messages[index + 1];
            const results = contentOf(next?.content_json ?? '[]').filter(
              ({ type }) => type === 'tool_result',
            );
            if (message.role === 'assistant' && message.shown && asked.length > 0) {
              expect(next?.role).toBe('user');
              expect(results.map((block) => block['tool_use_id'])).toEqual([...new Set(asked)]);
            } else expect(results).toEqual([]);
          }
          expect(isRunEnded(facts.state)).toBe(true);
        }
      }),
      { numRuns: 200 },
    );
  });

  test('a batch ends with its last run and not before', () => {
    fc.assert(
      fc.property(world, (given) => {
        for (const rows of runFleet(given, 'as told')) {
          const open_runs = rows.filter(({ facts }) => !isRunEnded(facts.state)).length;
          const completed_runs = rows.filter(({ facts }) => facts.state === 'completed').length;
          const state = rows.some(({ facts }) => facts.batch_state === 'cancelling')
            ? 'cancelling'
            : 'running';
          const end = decideFinish({ state, open_runs, completed_runs, total: rows.length });
          if (open_runs > 0) expect(end).toBeNull();
          else expect(terminalStates(batchMachine)).toContain(end);
        }
      }),
      { numRuns: 100 },
    );
  });
});

test('every decision has the required fields of its target state', () => {
  const facts = fc.record({
    id: fc.constant(RUN_ID),
    batch_state: fc.constantFrom(...BATCH_STATES),
    state: fc.constantFrom('in_flight' as const, ...RUN_STATES),
    step_number: fc.integer({ min: 1, max: 5 }),
    attempt: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 250, max: ATTEMPT_MAX })),
    failures: fc.nat(5),
    max_steps: fc.integer({ min: 5, max: 7 }),
    token_boost: fc.nat(1),
    last_seq: fc.integer({ min: -1, max: 100 }),
    trail: fc.constantFrom(null, { ...NO_TRAIL, reasks: 3 }, { ...NO_TRAIL, pauses: PAUSES_MAX }),
    summarises_to_seq: fc.option(fc.nat(100), { nil: null }),
  });
  fc.assert(
    fc.property(facts, anyOutcome, (run, outcome) => {
      const key = { run_id: run.id, number: run.step_number, attempt: run.attempt };
      const decision = decideLine(run, key, outcome, policy);
      expect(decision.kind).toBe(run.state === 'in_flight' ? 'apply' : 'refuse');
      if (decision.kind === 'refuse') return;
      const { step, messages, run: move } = decision;
      expect(step.applies).toBe(step.state === 'answered' || step.state === 'done');
      if (step.applies) expect(step.stop_reason).not.toBeNull();
      if (step.state === 'errored') expect(step.error).not.toBeNull();
      if (!step.applies) expect(messages).toEqual([]);
      expect((step.cost_nanousd ?? 0) > 0).toBe((billOfOutcome(outcome)?.cost_nanousd ?? 0) > 0);
      expect(move.state === 'acting').toBe(step.state === 'answered');
      if (move.state === 'failed') expect(move.error).not.toBeNull();
      if (move.state === 'ready') {
        // A summary step counts towards no limit.
        expect(move.step_number).toBeLessThanOrEqual(run.max_steps + (decision.summary === null ? 0 : 1));
        expect(move.attempt).toBeLessThanOrEqual(ATTEMPT_MAX);
      }
      if (run.summarises_to_seq !== null) expect(messages).toEqual([]);
      else expect(decision.summary).toBeNull();
      expect(messages.map(({ seq }) => seq)).toEqual(messages.map((_, index) => run.last_seq + 1 + index));
    }),
    { numRuns: 2_000 },
  );
});
