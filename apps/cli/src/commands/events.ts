import type { Event } from '@nightshift/client';
import type { Define, Session } from '../session.ts';
import { plainOf } from '../table.ts';

interface Flags {
  readonly after?: string;
}

/** Follows the changes of all batches and schedules. */
export const define: Define = (command, run) => {
  command
    .option('--after <event>', 'begin behind this event, instead of now')
    .addHelpText('after', '\nRuns until Ctrl-C. With --json a JSON line per event.')
    .action(run<Flags>(events));
};

async function events({ client, out, signal }: Session, { after }: Flags): Promise<undefined> {
  out.note('Waiting for events; Ctrl-C ends.');
  for await (const event of client.events({ signal, ...(after !== undefined && { after }) }))
    await out.record(event, () => lineOf(event));
}

function lineOf({ created_at: at, type, job_id: batch, schedule_id: schedule, data, id }: Event): string {
  const reason = data['reason'];
  const cells = [at, type, batch ?? schedule ?? '-', typeof reason === 'string' ? reason : '', id];
  return plainOf(cells.filter(Boolean).join('  '));
}
