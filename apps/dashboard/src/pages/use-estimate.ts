import type { BatchCreate, BatchEstimate } from '@nightshift/client';
import { useEffect, useState } from 'react';
import { nightshift } from '../api/client.ts';

/** Time without a change after which the API is asked. Unit: milliseconds. */
const SETTLE_MS = 600;

interface Asked {
  readonly body: BatchCreate | null;
  readonly estimate?: BatchEstimate;
  readonly error: Error | null;
}

export interface Estimating {
  /** The latest estimate; an older one stays while a newer one is asked for. */
  readonly estimate: BatchEstimate | undefined;
  readonly error: Error | null;
  readonly isAsking: boolean;
}

/** Asks for an estimate of a body once it has not changed for a while; null asks for none. The body must be memoized. */
export function useEstimate(body: BatchCreate | null): Estimating {
  const [asked, setAsked] = useState<Asked>({ body: null, error: null });
  useEffect(() => {
    if (body === null) return undefined;
    let isOld = false;
    const timer = setTimeout(() => {
      nightshift.batches.estimate(body).then(
        (estimate) => !isOld && setAsked({ body, estimate, error: null }),
        (error: unknown) =>
          !isOld && setAsked({ body, error: error instanceof Error ? error : new Error(String(error)) }),
      );
    }, SETTLE_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [body]);
  if (body === null) return { estimate: undefined, error: null, isAsking: false };
  return { estimate: asked.estimate, error: asked.error, isAsking: asked.body !== body };
}
