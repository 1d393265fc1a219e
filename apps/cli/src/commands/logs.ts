import { setTimeout as pause } from 'node:timers/promises';
import type { Run } from '@nightshift/client';
import { entriesOf, type Entry } from '../run-log.ts';
import type { Define, Session } from '../session.ts';
import { allOf } from '../take.ts';

interface Flags {
  readonly follow?: true;
}

/** Milliseconds between two looks at a run. */
const LOOK_MS = 2_000;

/** Shows messages, calls, results and waits of a run. */
export const define: Define = (command, run) => {
  command
    .argument('<run>', 'id of the run')
    .option('-f, --follow', 'follow the run to its end')
    .addHelpText('after', '\nWith --json a JSON line per entry.')
    .action(run<Flags>(logs));
};

async function logs(session: Session, { follow }: Flags, id: string): Promise<undefined> {
  const { client, out, signal } = session;
  const seen = new Set<string>();
  for (;;) {
    // The run first: what it did before its end is read behind it.
    const run = await client.runs.retrieve(id);
    const [messages, steps] = await Promise.all([
      allOf(client.runs.messages(id, { order: 'asc' })),
      allOf(client.runs.steps(id, { order: 'asc' })),
    ]);
    for (const entry of entriesOf(run, messages, steps)) {
      if (seen.has(entry.key)) continue;
      seen.add(entry.key);
      await out.record(withoutKey(entry), () => lineOf(entry, out));
    }
    if (!follow || isEnded(run)) return;
    await pause(LOOK_MS, undefined, { signal });
  }
}

function isEnded({ state }: Run): boolean {
  return ['completed', 'failed', 'cancelled', 'expired'].includes(state);
}

function withoutKey({ key: _, ...entry }: Entry): object {
  return entry;
}

function lineOf({ at, kind, text }: Entry, out: Session['out']): string {
  const indent = ' '.repeat(37);
  return `${out.paint('dim', at)}  ${out.paint('cyan', kind.padEnd(9))}  ${text.replaceAll('\n', `\n${indent}`)}`;
}
