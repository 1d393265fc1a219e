import { count, counted } from '../../parts/numbers.tsx';
import { ErrorNotice } from '../../parts/notices.tsx';
import { SAMPLE_SIZES } from './sample.ts';
import { AcceptMany } from './settle-many.tsx';
import type { ReviewState } from './use-review.ts';

/** Offers a random sample, walks through it, and then accepts the others. */
export function SampleBar({ review }: { readonly review: ReviewState }) {
  const { sample, summary, isHeldList } = review;
  const held = summary.data?.states.held ?? 0;
  if (!isHeldList || (held === 0 && sample.drawn === null)) return null;
  return (
    <div className="review-sample row">
      {sample.drawn === null ? <Offer review={review} held={held} /> : <Walk review={review} />}
      {sample.draw.error !== null && <ErrorNotice error={sample.draw.error} />}
    </div>
  );
}

function Offer({ review, held }: { readonly review: ReviewState; readonly held: number }) {
  const { draw, read } = review.sample;
  if (draw.isPending)
    return (
      <span className="muted" role="status">
        Drawing at random from {count(held)} · {count(read)} read
      </span>
    );
  return (
    <>
      <span className="muted">A random sample of</span>
      {SAMPLE_SIZES.map((size) => (
        <button
          key={size}
          type="button"
          className="chip"
          disabled={held <= size}
          aria-label={`A random sample of ${size}`}
          onClick={() => draw.mutate(size)}
        >
          {size}
        </button>
      ))}
      <AcceptMany
        review={review}
        exceptIds={[]}
        action={`Accept ${held === 1 ? 'the one left' : `all ${count(held)}`}`}
        onDone={() => undefined}
      />
    </>
  );
}

function Walk({ review }: { readonly review: ReviewState }) {
  const { sample, summary } = review;
  const { drawn, changes, seen, end } = sample;
  if (drawn === null || changes === null) return null;
  const isSettled = new Set(changes.filter(({ state }) => state !== 'held').map(({ id }) => id));
  const held = summary.data?.states.held ?? drawn.from;
  // Rejected ones need no exception, but an undone settle in another tab must not accept them either.
  const exceptIds = changes.filter(({ state }) => state !== 'accepted').map(({ id }) => id);
  const skipped = changes.length - isSettled.size;
  const looked = changes.filter(({ id }) => seen.has(id) || isSettled.has(id)).length;
  const others = Math.max(0, held - skipped);
  return (
    <>
      <span>
        Sample of {counted(changes.length, 'change')} at random from{' '}
        {drawn.isWhole ? `all ${count(drawn.from)}` : `the oldest ${count(drawn.from)}`} · {count(looked)}{' '}
        looked at
      </span>
      {others > 0 && (
        <AcceptMany
          review={review}
          exceptIds={exceptIds}
          action={`Accept the other ${count(others)}`}
          onDone={end}
        />
      )}
      <button type="button" className="button" onClick={end}>
        Back to all
      </button>
    </>
  );
}
