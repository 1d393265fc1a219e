/** Reads CPU and memory of process trees from /proc, on Linux. A tick is ten milliseconds. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const TICK_MS = 10;

interface Stat {
  readonly pid: number;
  readonly parent: number;
  /** Ticks of the process alone. */
  readonly own: number;
  /** Ticks of the process and of its ended children. */
  readonly ticks: number;
}

function statOf(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const at = (place: number): number => Number(fields[place]);
    const own = at(11) + at(12);
    return { pid, parent: at(1), own, ticks: own + at(13) + at(14) };
  } catch {
    return null;
  }
}

function allStats(): readonly Stat[] {
  return readdirSync('/proc').flatMap((name) => {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null;
    return stat === null ? [] : [stat];
  });
}

/** Returns the process and all its descendants. */
export function treeOf(pid: number): readonly number[] {
  const stats = allStats();
  const tree = new Set([pid]);
  for (let grew = true; grew;) {
    grew = false;
    for (const stat of stats) {
      if (tree.has(stat.parent) && !tree.has(stat.pid)) {
        tree.add(stat.pid);
        grew = true;
      }
    }
  }
  return [...tree];
}

/** Returns the CPU milliseconds of a process tree, ended processes included. */
export function treeCpuMs(pid: number): number {
  return treeOf(pid).reduce((sum, member) => sum + (statOf(member)?.ticks ?? 0), 0) * TICK_MS;
}

/** Interval of readings of {@link watchTreeCpu}. Unit: milliseconds. */
const WATCH_EVERY_MS = 250;

/**
 * Watches the CPU of a process tree. A process that has ended counts as last seen: the system adds its time to no other if its
 * parent was ended with it.
 */
export function watchTreeCpu(pid: number): { readonly cpuMs: () => number; readonly stop: () => void } {
  const ticks = new Map<number, number>();
  const look = (): void => {
    for (const member of treeOf(pid)) ticks.set(member, statOf(member)?.own ?? ticks.get(member) ?? 0);
  };
  const timer = setInterval(look, WATCH_EVERY_MS);
  return {
    cpuMs() {
      look();
      return [...ticks.values()].reduce((sum, own) => sum + own, 0) * TICK_MS;
    },
    stop: () => clearInterval(timer),
  };
}

/** Returns the CPU milliseconds of the whole machine. */
export function machineCpuMs(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * TICK_MS;
}

/** Returns the resident memory of a process in kilobytes, and its peak since the start or the last reset. */
export function memoryOf(pid: number): { readonly rss_kb: number; readonly peak_kb: number } {
  const read = (name: string, text: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'utf8');
    return { rss_kb: read('VmRSS', text), peak_kb: read('VmHWM', text) };
  } catch {
    return { rss_kb: 0, peak_kb: 0 };
  }
}

/** Resets the peak. Where the kernel refuses, the peak since the start remains. */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {
    // The figure is an upper bound then.
  }
}
