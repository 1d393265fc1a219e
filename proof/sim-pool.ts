/**
 * A pool for simulated processes over one real connection. A single statement is one effect. A transaction
 * has the connection to itself from `begin` to its end; faults may strike between its statements and at its
 * commit.
 */
import type pg from 'pg';
import { createHash } from 'node:crypto';
import { CutConnection, currentActor, type Actor, type Outcome, type World } from './world.ts';

/** Changes the text of a statement, to take a guard out. */
export type Rewrite = (text: string) => string;

/** The real connection. It sets the virtual clock before each statement. */
export interface SqlConnection {
  query(text: string, values?: readonly unknown[]): Promise<pg.QueryResult>;
  /** Sets the database's clock; null restores the real one. */
  setClock(clock: (() => number) | null): void;
  setRewrite(rewrite: Rewrite | null): void;
  readonly statements: () => number;
}

interface Prepared {
  readonly name: string;
  readonly text: string;
}

/** Wraps a client. Statements are prepared once: planning costs more than running them. */
export function createSqlConnection(client: pg.ClientBase): SqlConnection {
  let clock: (() => number) | null = null;
  let rewrite: Rewrite | null = null;
  let shownNow = 0;
  let statements = 0;
  const prepared = new Map<string, Prepared>();

  const prepare = (original: string): Prepared => {
    let entry = prepared.get(original);
    if (entry === undefined) {
      const text = rewrite === null ? original : rewrite(original);
      entry = { name: createHash('sha1').update(text).digest('base64url'), text };
      prepared.set(original, entry);
    }
    return entry;
  };

  return {
    async query(text, values = []) {
      statements += 1;
      if (text === 'commit' || text === 'rollback') {
        // The rollback may have undone the setting.
        shownNow = 0;
        return client.query(text);
      }
      let setTime = '';
      const now = clock?.() ?? shownNow;
      if (now !== shownNow) {
        shownNow = now;
        setTime = `set nightshift.now = '${new Date(shownNow).toISOString()}'`;
      }
      if (isBegin(text)) return client.query(setTime === '' ? text : `${text}; ${setTime}`);
      if (setTime !== '') await client.query(setTime);
      const statement = prepare(text);
      return client.query({ ...statement, values: [...values] });
    },
    setClock(next) {
      if (next !== null && clock !== null)
        throw new Error('Another simulation still runs on this connection: await it first.');
      clock = next;
      shownNow = 0;
    },
    setRewrite(next) {
      if (next === rewrite) return;
      rewrite = next;
      prepared.clear();
    },
    statements: () => statements,
  };
}

interface SimClient {
  query(text: string, values?: readonly unknown[]): Promise<unknown>;
  release(): void;
}

interface Asked {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly settle: (outcome: Outcome) => void;
}

/**
 * Creates a pool for the current process. `violation` reports a transaction that waits for another effect.
 */
export function createSimPool(
  world: World,
  connection: SqlConnection,
  violation: (name: string, detail: string) => void,
): { connect(): Promise<SimClient>; end(): Promise<void> } {
  const connect = (): Promise<SimClient> => {
    let isOpen = false;
    let isCut = false;
    let asked: Asked | null = null;

    const runTransaction = async (actor: Actor): Promise<void> => {
      for (;;) {
        await world.settle();
        const next = asked;
        asked = null;
        if (next === null) {
          // The process is dead or paused at a hook: the server ends the session of a silent transaction.
          if (actor.alive && actor.pausedUntil <= world.now())
            violation('transaction_waits', `${actor.name} waits for something else inside a transaction`);
          await cut();
          return;
        }
        const kind = next.text === 'commit' ? 'commit' : 'statement';
        const label = labelOf(next.text);
        const struck = next.text === 'rollback' ? null : world.strike({ actor, kind, label, canFail: true });
        world.note(`${actor.name}   ${label}`);
        if (struck !== null && struck.kind !== 'slow') {
          if (kind === 'commit' && 'performed' in struck && struck.performed) {
            await connection.query('commit');
            isOpen = false;
            isCut = true;
          } else await cut();
          if (struck.kind === 'kill') world.kill(actor);
          else if (struck.kind === 'pause') {
            actor.pausedUntil = world.now() + struck.ms;
            const fate: Outcome =
              kind === 'commit' && struck.performed ? { ok: true, value: NO_ROWS } : cutOutcome();
            world.parkFor(actor, `${label} resumes`, fate, next.settle);
          } else next.settle(cutOutcome());
          return;
        }
        const outcome = await perform(next.text, next.values);
        if (next.text === 'commit' || next.text === 'rollback') isOpen = false;
        next.settle(outcome);
        if (!isOpen) return;
      }
    };
    const cut = async (): Promise<void> => {
      await connection.query('rollback');
      isOpen = false;
      isCut = true;
    };
    const perform = async (text: string, values: readonly unknown[]): Promise<Outcome> => {
      try {
        return { ok: true, value: await connection.query(text, values) };
      } catch (error) {
        return { ok: false, error: error instanceof Error ? error : new Error(String(error)) };
      }
    };

    return Promise.resolve({
      query(text, values = []) {
        const actor = currentActor.getStore();
        if (actor === undefined)
          return Promise.reject(new Error('A simulated connection was used outside of any process.'));
        if (!actor.alive) return new Promise<never>(() => undefined);
        if (isCut) return Promise.reject(new CutConnection());
        if (isBegin(text)) {
          return world.park('begin', text, async () => {
            await connection.query(text);
            isOpen = true;
            world.takeOver(() => runTransaction(actor));
            return { ok: true, value: NO_ROWS };
          });
        }
        if (isOpen) {
          return new Promise((resolve, reject) => {
            asked = {
              text,
              values,
              settle: (outcome) => {
                if (outcome.ok) resolve(outcome.value);
                else reject(outcome.error);
              },
            };
          });
        }
        return world.park('sql', labelOf(text), () => perform(text, values));
      },
      release: () => undefined,
    });
  };
  return { connect, end: () => Promise.resolve() };
}

const isBegin = (text: string): boolean => text === 'begin' || text.startsWith('start transaction');

const NO_ROWS = { command: 'COMMIT', rowCount: null, rows: [] };
const cutOutcome = (): Outcome => ({ ok: false, error: new CutConnection() });

const labels = new Map<string, string>();

/** Shortens a statement for traces. */
function labelOf(text: string): string {
  let label = labels.get(text);
  if (label === undefined) {
    label = text.replaceAll(/\s+/g, ' ').trim().slice(0, 70);
    labels.set(text, label);
  }
  return label;
}
