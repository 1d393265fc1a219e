import type { Tone } from './state-mark.tsx';

/** Shows a share as a bar. */
export function Bar({
  done,
  total,
  tone = 'accent',
}: {
  readonly done: number;
  readonly total: number;
  readonly tone?: Tone;
}) {
  const percent = total === 0 ? 0 : Math.floor((100 * done) / total);
  return (
    <progress
      className="bar"
      data-tone={tone}
      value={done}
      max={Math.max(1, total)}
      aria-label={`${percent} %`}
    />
  );
}
