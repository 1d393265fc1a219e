import type { Batch, Timeline } from '@nightshift/client';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { nightshift } from '../api/client.ts';
import { Empty } from '../parts/notices.tsx';
import { QueryPart } from '../parts/query-part.tsx';

const HEIGHT = 160;

/** Draws ended and failed runs over time. */
export function TimelineChart({ batch }: { readonly batch: Batch }) {
  const timeline = useQuery({
    queryKey: ['batch', batch.id, 'timeline'],
    queryFn: () => nightshift.batches.timeline(batch.id),
    refetchInterval: batch.progress?.phase === 'done' ? false : 5_000,
  });
  return (
    <QueryPart of={timeline}>
      {(data) =>
        data.buckets.length === 0 ? <Empty>No run has ended yet.</Empty> : <Chart timeline={data} />
      }
    </QueryPart>
  );
}

function Chart({ timeline }: { readonly timeline: Timeline }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    let end: (() => void) | undefined;
    let isGone = false;
    void import('./draw-timeline.ts').then(({ drawTimeline }) => {
      if (!isGone) end = drawTimeline(element, timeline, HEIGHT);
    });
    return () => {
      isGone = true;
      end?.();
    };
  }, [timeline]);
  const ended = timeline.buckets.reduce((sum, bucket) => sum + bucket.ended, 0);
  const failed = timeline.buckets.reduce((sum, bucket) => sum + bucket.failed, 0);
  return (
    <figure className="card">
      <div
        ref={place}
        role="img"
        aria-label={`${ended} runs ended in ${timeline.buckets.length} intervals of ${timeline.bucket}, ${failed} of them failed`}
      />
      <figcaption className="row small muted">
        <span>
          <span className="tone-accent">■</span> ended
        </span>
        <span>
          <span className="tone-bad">■</span> failed, among them
        </span>
      </figcaption>
    </figure>
  );
}
