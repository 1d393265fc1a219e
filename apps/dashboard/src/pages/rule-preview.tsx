import { isApiError } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { nightshift } from '../api/client.ts';
import { Time } from '../parts/time.tsx';
import { useSettled } from '../parts/use-settled.ts';

interface RulePreviewProps {
  readonly cron: string;
  readonly timeZone: string;
}

/** Says a rule in words, with its next five times in its zone, while it is typed. */
export function RulePreview({ cron, timeZone }: RulePreviewProps) {
  const [rule, zone] = [useSettled(cron), useSettled(timeZone)];
  const { data, error } = useQuery({
    queryKey: ['rule', rule, zone],
    queryFn: () => nightshift.schedules.previewRule({ cron: rule, time_zone: zone, count: 5 }),
    enabled: rule !== '' && zone !== '',
  });
  if (error !== null)
    return (
      <p className="tone-bad" role="status">
        {isApiError(error) && error.errors.length > 0
          ? error.errors.map(({ message }) => message).join(' ')
          : error.message}
      </p>
    );
  if (data === undefined) return null;
  const inZone = new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'full',
    timeStyle: 'short',
    timeZone: zone,
  });
  return (
    <div role="status">
      <p>
        <strong>{data.description}</strong>
      </p>
      <ol className="steps small">
        {data.next_ticks.map((at) => (
          <li key={at}>
            {inZone.format(new Date(at))}{' '}
            <span className="muted">
              · <Time at={at} />
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}
