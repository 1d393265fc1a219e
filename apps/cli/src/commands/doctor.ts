import { readTime } from '../doctor/at-time.ts';
import { diagnose } from '../doctor/diagnose.ts';
import type { Finding } from '../doctor/finding.ts';
import { renderFindings, renderSchedules } from '../doctor/render.ts';
import { EXIT } from '../failure.ts';
import type { Define, Session } from '../session.ts';

interface Flags {
  readonly at?: string;
}

/** Says what is wrong with an installation, and what to do. */
export const define: Define = (command, run) => {
  command
    .option('--at <time>', 'what schedules will meet up to this time, such as 03:00 (local time)')
    .addHelpText('after', '\nExit codes: 0 all is well · 1 a check fails · 2 wrong usage · 3 no API answers')
    .action(run<Flags>(examine));
};

async function examine(session: Session, { at }: Flags): Promise<number> {
  const { out } = session;
  const until = at === undefined ? undefined : readTime(at, new Date());
  const { reachable, findings, schedules } = await diagnose(session, until);
  const count = (status: Finding['status']): number =>
    findings.filter((finding) => finding.status === status).length;
  const isOk = reachable && count('failing') === 0;
  await out.record({ object: 'checks', ok: isOk, reachable, checks: findings }, () => {
    const listed = until === undefined || schedules === null ? '' : renderSchedules(schedules, out.columns);
    return renderFindings(findings, out) + listed;
  });
  const parts = [`${count('failing')} failing`, `${count('warning')} to watch`, `${count('ok')} in order`];
  out.note(`${parts.join(', ')}.`);
  if (!reachable) return EXIT.unreachable;
  return isOk ? EXIT.ok : EXIT.failed;
}
