import type { Timeline } from '@nightshift/client';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clockOf, dayOf } from '../parts/time.tsx';

/** Widths of buckets. Unit: seconds. */
const BUCKET_SECONDS: Readonly<Record<Timeline['bucket'], number>> = {
  '1m': 60,
  '5m': 300,
  '15m': 900,
  '1h': 3_600,
};

/** Steps of the counts. */
const WHOLE_NUMBERS = [1, 2, 5]
  .flatMap((step) => [1, 10, 100, 1_000, 10_000].map((power) => step * power))
  .sort((a, b) => a - b);

/** Labels a moment by its time of day; with the day where the chart is longer than one. */
function labelOf(times: readonly number[]): (seconds: number) => string {
  const isLong = (times.at(-1) ?? 0) - (times[0] ?? 0) > 86_400;
  return (seconds) => {
    const at = new Date(seconds * 1_000).toISOString();
    return isLong ? `${dayOf(at)} ${clockOf(at)}` : clockOf(at);
  };
}

/** Draws the chart into an element as wide as it. Returns the function that removes it. */
export function drawTimeline(
  element: HTMLElement,
  { bucket, buckets }: Timeline,
  height: number,
): () => void {
  const colour = (name: string): string => {
    // A canvas does not know light-dark().
    element.style.color = `var(${name})`;
    return getComputedStyle(element).color;
  };
  const width = BUCKET_SECONDS[bucket];
  const axis = {
    stroke: colour('--muted'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  };
  const times = buckets.map(({ from }) => Date.parse(from) / 1_000);
  const bars = (stroke: string, label: string): uPlot.Series => {
    const { bars: paths } = uPlot.paths;
    return {
      label,
      stroke,
      fill: stroke,
      width: 0,
      points: { show: false },
      ...(paths !== undefined && { paths: paths({ size: [0.8, 24] }) }),
    };
  };
  const chart = new uPlot(
    {
      width: element.clientWidth,
      height,
      legend: { show: false },
      cursor: { show: false },
      // The last label is as wide on both sides of its line.
      padding: [8, 24, 0, 0],
      // At least ten buckets wide, so that one bucket is no year.
      scales: {
        x: {
          range: () => [
            (times[0] ?? 0) - width,
            Math.max(times.at(-1) ?? 0, (times[0] ?? 0) + 9 * width) + width,
          ],
        },
        y: { range: (_chart, _lowest, highest) => [0, Math.max(1, highest) * 1.1] },
      },
      axes: [
        { ...axis, size: 28, values: (_chart, splits) => splits.map(labelOf(times)) },
        { ...axis, incrs: WHOLE_NUMBERS },
      ],
      series: [{}, bars(colour('--accent'), 'ended'), bars(colour('--bad'), 'failed')],
    },
    [times, buckets.map(({ ended }) => ended), buckets.map(({ failed }) => failed)],
    element,
  );
  const resized = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
  resized.observe(element);
  return () => {
    resized.disconnect();
    chart.destroy();
  };
}
