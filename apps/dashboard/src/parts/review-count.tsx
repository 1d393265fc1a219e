import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { latestReviewsQuery } from '../api/reviews.ts';
import { count } from './numbers.tsx';

/** Time that the page has for its own requests: to count reads all changes of a batch. Unit: milliseconds. */
const AFTER_MS = 1_000;

/** Counts the changes that the latest batches hold; nothing without any. */
export function ReviewCount() {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A hidden tab asks for nothing.
    const waitWhileShown = (): void => {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(() => setDue(true), AFTER_MS);
    };
    waitWhileShown();
    document.addEventListener('visibilitychange', waitWhileShown);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', waitWhileShown);
    };
  }, []);
  const { data } = useQuery({ ...latestReviewsQuery, enabled: isDue });
  const held = data?.toReview.reduce((sum, { summary }) => sum + summary.states.held, 0) ?? 0;
  if (held === 0) return null;
  return (
    <span className="rail-count" title="Changes to review in the latest batches">
      {count(held)}
    </span>
  );
}
