import { describe, expect, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  admitRuns,
  NO_AMOUNT,
  reserveAmount,
  type Account,
  type Amount,
  type AskingRun,
  type Cap,
} from '../../src/money/budget.ts';

const amount = (cost_nanousd: number, output_tokens = 0): Amount => ({ cost_nanousd, output_tokens });
function account(cap: Partial<Cap> = {}, spent = NO_AMOUNT, reserved = NO_AMOUNT): Account {
  return { cap: { cost_nanousd: null, output_tokens: null, ...cap }, spent, reserved };
}
function run(run_id: string, cost: number | null, rest: Partial<AskingRun> = {}): AskingRun {
  return { run_id, batch_id: 'b', cost_nanousd: cost, output_tokens: 10, account: account(), ...rest };
}
/** Settles an answer as the store does: releases the reserved amount, books the bill. */
function settle(given: Account, held: Amount, billed: Amount): Account {
  const sum = (a: Amount, b: Amount, sign: 1 | -1): Amount =>
    amount(a.cost_nanousd + sign * b.cost_nanousd, a.output_tokens + sign * b.output_tokens);
  return { ...given, spent: sum(given.spent, billed, 1), reserved: sum(given.reserved, held, -1) };
}
const ids = (list: readonly { readonly run_id: string }[]) => list.map(({ run_id }) => run_id);

describe('room under a cap', () => {
  test.each([
    [{ cost_nanousd: 10 }, amount(3), amount(4), amount(3, 0), true],
    [{ cost_nanousd: 10 }, amount(3), amount(4), amount(4, 0), false],
    [{ output_tokens: 5 }, NO_AMOUNT, NO_AMOUNT, amount(99, 5), true],
    [{ output_tokens: 5 }, NO_AMOUNT, NO_AMOUNT, amount(0, 6), false],
    [{}, NO_AMOUNT, NO_AMOUNT, amount(1e15, 1e9), true],
  ])('of %j with %j spent and %j held is to the last bit: %j goes: %s', (cap, spent, held, asked, goes) => {
    const asking = run('1', asked.cost_nanousd, { output_tokens: asked.output_tokens });
    const { admitted } = admitRuns([asking], new Map([['b', account(cap, spent, held)]]));
    expect(ids(admitted)).toEqual(goes ? ['1'] : []);
  });

  test('admitted amounts are reserved', () => {
    expect(reserveAmount(account({ cost_nanousd: 10 }), amount(6, 2)).reserved).toEqual(amount(6, 2));
  });
});

describe('admission', () => {
  test('without caps every run is admitted', () => {
    const { admitted, ended, waiting, paused } = admitRuns([run('1', 5), run('2', null)], new Map());
    expect(admitted).toEqual([
      { run_id: '1', amount: amount(5, 10) },
      { run_id: '2', amount: amount(0, 10) },
    ]);
    expect([ended, waiting, paused]).toEqual([[], [], []]);
  });

  test('a batch sends the runs that fit, in order, and the rest waits for open requests', () => {
    const batches = new Map([['b', account({ cost_nanousd: 10 })]]);
    const { admitted, waiting, paused } = admitRuns([run('1', 6), run('2', 6), run('3', 1)], batches);
    expect(ids(admitted)).toEqual(['1']);
    expect(waiting).toEqual(['2', '3']);
    expect(paused).toEqual([]);
    expect(batches.get('b')?.reserved).toEqual(NO_AMOUNT);
  });

  test('a batch without open requests and room is paused, with its cap and the need of the next step', () => {
    const full = account({ cost_nanousd: 10 }, amount(8));
    expect(admitRuns([run('1', 6)], new Map([['b', full]]))).toMatchObject({
      admitted: [],
      waiting: ['1'],
      paused: [
        {
          batch_id: 'b',
          reason:
            'max_cost_usd leaves no room for the next step, which may take $0.000000006 and needs a cap of $0.000000014; raise it to go on.',
        },
      ],
    });
    const tokens = account({ output_tokens: 15 }, amount(0, 6));
    expect(admitRuns([run('1', 6)], new Map([['b', tokens]])).paused[0]?.reason).toContain(
      'max_output_tokens leaves no room for the next step, which may take 10 tokens and needs a cap of 16 tokens;',
    );
  });

  test.each([
    ['money', amount(1, 0)],
    ['tokens', amount(0, 1)],
  ])('a batch with %s held for an open request waits for it and is not paused', (_what, held) => {
    const full = account({ cost_nanousd: 10 }, amount(8), held);
    expect(admitRuns([run('1', 6)], new Map([['b', full]]))).toMatchObject({ waiting: ['1'], paused: [] });
  });

  test('a batch without an asking run is not paused', () => {
    const batches = new Map([['b', account({ cost_nanousd: 10 }, amount(10))]]);
    expect(admitRuns([], batches).paused).toEqual([]);
    expect(admitRuns([run('1', 6, { account: account({ cost_nanousd: 0 }) })], batches).paused).toEqual([]);
  });

  test('the cap that a run would need covers spent and reserved amounts and the next step', () => {
    const poor = run('1', 6, { account: account({ cost_nanousd: 10 }, amount(5), amount(2)) });
    expect(admitRuns([poor], new Map()).ended[0]?.message).toContain(
      'may take $0.000000006 and needs a cap of $0.000000013.',
    );
  });

  test('a raised cap lets it go on', () => {
    const raised = account({ cost_nanousd: 20 }, amount(8));
    expect(ids(admitRuns([run('1', 6)], new Map([['b', raised]])).admitted)).toEqual(['1']);
  });

  test('a batch at its cap does not hold another up', () => {
    const batches = new Map([['b', account({ cost_nanousd: 0 })]]);
    const { admitted, paused } = admitRuns([run('1', 6), run('2', 6, { batch_id: 'c' })], batches);
    expect(ids(admitted)).toEqual(['2']);
    expect(paused.map(({ batch_id }) => batch_id)).toEqual(['b']);
  });

  test('a run at its own cap ends alone', () => {
    const poor = run('1', 6, { account: account({ cost_nanousd: 10 }, amount(5)) });
    const mute = run('2', 6, { account: account({ output_tokens: 9 }) });
    const { admitted, ended } = admitRuns([poor, mute, run('3', 6)], new Map());
    expect(ended).toEqual([
      {
        run_id: '1',
        message:
          'The next step could exceed the max_cost_usd of the run: it may take $0.000000006 and needs a cap of $0.000000011.',
      },
      {
        run_id: '2',
        message:
          'The next step could exceed the max_output_tokens of the run: it may take 10 tokens and needs a cap of 10 tokens.',
      },
    ]);
    expect(ids(admitted)).toEqual(['3']);
  });

  test('a cap on money ends a run whose model has no price, and a cap on tokens does not', () => {
    const own = run('1', null, { account: account({ cost_nanousd: 10 }) });
    expect(admitRuns([own], new Map()).ended[0]?.message).toContain('no price');
    expect(admitRuns([run('2', null)], new Map([['b', account({ cost_nanousd: 10 })]])).ended).toHaveLength(
      1,
    );
    expect(
      admitRuns([run('3', null)], new Map([['b', account({ output_tokens: 10 })]])).admitted,
    ).toHaveLength(1);
  });
});

describe('for any course of a batch', () => {
  const steps = fc.array(
    fc.record({
      asked: fc.array(fc.tuple(fc.nat(30), fc.integer({ min: 1, max: 20 })), { maxLength: 6 }),
      answered: fc.nat(6),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    { maxLength: 30 },
  );

  test('spent and reserved amounts never exceed the caps, and every asking run gets a verdict', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.nat(120), steps, (cost, output, course) => {
        let batch = account({ cost_nanousd: cost, output_tokens: output });
        const open: Amount[] = [];
        for (const [index, { asked, answered, share }] of course.entries()) {
          const runs = asked.map(([price, tokens], at) =>
            run(`${index}/${at}`, price, { output_tokens: tokens }),
          );
          const { admitted, ended, waiting, paused } = admitRuns(runs, new Map([['b', batch]]));
          expect([...ids(admitted), ...ids(ended), ...waiting].toSorted()).toEqual(ids(runs).toSorted());
          for (const { amount: held } of admitted) {
            batch = reserveAmount(batch, held);
            open.push(held);
          }
          if (paused.length > 0) expect(open).toEqual([]);
          for (const held of open.splice(0, answered)) {
            const billed = amount(
              Math.floor(held.cost_nanousd * share),
              Math.floor(held.output_tokens * share),
            );
            batch = settle(batch, held, billed);
          }
          expect(batch.spent.cost_nanousd + batch.reserved.cost_nanousd).toBeLessThanOrEqual(cost);
          expect(batch.spent.output_tokens + batch.reserved.output_tokens).toBeLessThanOrEqual(output);
          expect(batch.reserved.cost_nanousd).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  test('a cap with room never stops a batch whose open requests come back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 10, max: 100 }), fc.integer({ min: 1, max: 10 }), (cap, price) => {
        let batch = account({ cost_nanousd: cap });
        let sent = 0;
        for (let waiting = Math.floor(cap / price); waiting > 0;) {
          const runs = Array.from({ length: waiting }, (_, at) => run(`${at}`, price));
          const { admitted } = admitRuns(runs, new Map([['b', batch]]));
          expect(admitted.length).toBeGreaterThan(0);
          for (const { amount: held } of admitted) batch = settle(reserveAmount(batch, held), held, held);
          sent += admitted.length;
          waiting -= admitted.length;
        }
        expect(sent).toBe(Math.floor(cap / price));
      }),
    );
  });
});
