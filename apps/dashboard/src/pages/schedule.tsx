import type { Schedule, ScheduleTick } from '@nightshift/client';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useState } from 'react';
import { nightshift } from '../api/client.ts';
import { readPage } from '../api/pages-of.ts';
import { Ask } from '../parts/ask.tsx';
import { Confirm } from '../parts/confirm.tsx';
import { usd } from '../parts/numbers.tsx';
import { Empty, ErrorNotice } from '../parts/notices.tsx';
import { Page, Section } from '../parts/page.tsx';
import { QueryPage } from '../parts/query-page.tsx';
import { QueryPart } from '../parts/query-part.tsx';
import { StateMark, toneOf } from '../parts/state-mark.tsx';
import { dateOf, Time } from '../parts/time.tsx';
import { EditSchedule } from './edit-schedule.tsx';
import { SameAs } from './same-as.tsx';

const route = getRouteApi('/schedules/$scheduleId');

/** Shows a schedule: its rule in words, its next times, and its past ticks. */
export function SchedulePage() {
  const { scheduleId } = route.useParams();
  const schedule = useQuery({
    queryKey: ['schedules', scheduleId],
    queryFn: () => nightshift.schedules.retrieve(scheduleId),
    refetchInterval: 5_000,
  });
  return (
    <QueryPage
      of={schedule}
      title="Schedule"
      gone="There is no such schedule. It was deleted. Its batches are in the list of batches."
    >
      {(data) => <Shown schedule={data} />}
    </QueryPage>
  );
}

function Shown({ schedule }: { readonly schedule: Schedule }) {
  const { id, name, state, state_reason, description, cron, time_zone, next_ticks } = schedule;
  const [isEdited, setEdited] = useState(false);
  const inZone = new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'full',
    timeStyle: 'short',
    timeZone: time_zone,
  });
  return (
    <Page
      title={name}
      aside={<StateMark state={state} />}
      actions={<Actions schedule={schedule} onEdit={() => setEdited(true)} />}
    >
      <p>
        {description} · <code>{cron}</code>
      </p>
      {state_reason !== null && <p className="tone-warn">{state_reason}</p>}
      <Section title="Next">
        {next_ticks.length === 0 ? (
          <Empty>No tick is ahead.</Empty>
        ) : (
          <ol className="steps">
            {next_ticks.slice(0, 5).map((at) => (
              <li key={at}>
                {inZone.format(new Date(at))}{' '}
                <span className="muted">
                  · <Time at={at} />
                </span>
              </li>
            ))}
          </ol>
        )}
      </Section>
      {isEdited && <EditSchedule schedule={schedule} onEnd={() => setEdited(false)} />}
      <History scheduleId={id} />
      <Section title="What it submits">
        <pre className="code">{JSON.stringify(schedule.body, null, 2)}</pre>
        {schedule.max_cost_usd_per_month !== null && (
          <p className="small muted below">
            Spent this month: {usd(schedule.spent_usd_this_month)} of {usd(schedule.max_cost_usd_per_month)}
          </p>
        )}
      </Section>
      <SameAs command={`npx nightshift schedules show ${id}`} path={`/v1/schedules/${id}`} />
    </Page>
  );
}

function History({ scheduleId }: { readonly scheduleId: string }) {
  const ticks = useQuery({
    queryKey: ['schedules', scheduleId, 'ticks'],
    queryFn: () => readPage(nightshift.schedules.ticks(scheduleId)),
    refetchInterval: 5_000,
  });
  return (
    <Section title="Ticks">
      <QueryPart of={ticks}>
        {(list) =>
          list.length === 0 ? (
            <Empty>It has not run yet.</Empty>
          ) : (
            <>
              <Strip ticks={list} />
              <div className="table">
                <table aria-label="Ticks">
                  <tbody>
                    {list.map((tick) => (
                      <Tick key={`${tick.due_at} ${tick.created_at}`} tick={tick} />
                    ))}
                  </tbody>
                </table>
              </div>
            </>
          )
        }
      </QueryPart>
      <p className="small more">
        <Link to="/batches" search={{ schedule_id: scheduleId }}>
          All batches of this schedule
        </Link>
      </p>
    </Section>
  );
}

/** Shows the last ticks at a glance, the latest on the right; the table below says the same in words. */
function Strip({ ticks }: { readonly ticks: readonly ScheduleTick[] }) {
  return (
    <div className="strip" aria-hidden>
      {ticks.toReversed().map(({ due_at, created_at, outcome }) => (
        <span
          key={`${due_at} ${created_at}`}
          className={`tone-${toneOf(outcome)}`}
          title={`${dateOf(due_at)}: ${outcome}`}
        />
      ))}
    </div>
  );
}

function Tick({ tick: { due_at, is_manual, outcome, message, job_id } }: { readonly tick: ScheduleTick }) {
  return (
    <tr>
      <td>
        <Time at={due_at} as="date" /> {is_manual && <span className="muted">by hand</span>}
      </td>
      <td>
        <StateMark state={outcome} /> <span className="muted">{message}</span>
      </td>
      <td>
        {job_id !== null && (
          <Link to="/batches/$batchId" params={{ batchId: job_id }}>
            batch
          </Link>
        )}
      </td>
    </tr>
  );
}

interface ActionsProps {
  readonly schedule: Schedule;
  readonly onEdit: () => void;
}

function Actions({ schedule, onEdit }: ActionsProps) {
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const { schedules } = nightshift;
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: ['schedules'] });
  const change = useMutation({
    mutationFn: (act: () => Promise<unknown>) => act(),
    onSettled: refresh,
  });
  const remove = useMutation({
    mutationFn: () => schedules.delete(schedule.id),
    onSuccess: async () => {
      await refresh();
      await navigate({ to: '/schedules' });
    },
  });
  const isPaused = schedule.state === 'paused';
  const error = change.error ?? remove.error;
  return (
    <>
      <button
        type="button"
        className="button button-main"
        disabled={change.isPending}
        onClick={() => change.mutate(() => schedules.runNow(schedule.id))}
      >
        Run now
      </button>
      {isPaused && (
        <button
          type="button"
          className="button"
          onClick={() => change.mutate(() => schedules.resume(schedule.id))}
        >
          Resume
        </button>
      )}
      {schedule.state === 'active' && (
        <Ask
          action="Pause"
          question={`Pause ${schedule.name}?`}
          label="Reason"
          hint="Shown with the schedule, until it is resumed. It may be empty."
          onAnswer={(reason) =>
            change.mutate(() => schedules.pause(schedule.id, reason === '' ? {} : { reason }))
          }
        />
      )}
      <button type="button" className="button" onClick={onEdit}>
        Change
      </button>
      <Confirm
        action="Delete schedule"
        question={`Delete ${schedule.name}?`}
        isBad
        onConfirm={() => remove.mutate()}
      >
        Its batches stay. It makes no more of them.
      </Confirm>
      {error !== null && <ErrorNotice error={error} />}
    </>
  );
}
